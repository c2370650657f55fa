import { execFile, spawnSync } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { aptInstall, aptRefusal } from '../services/sources/apt.ts'

const home = import.meta.dirname
const target = join(home, '../.cache/interop')
const jars = join(target, 'jars')
const classes = join(target, 'classes')

/** Where the programs of this folder and what they need are, once built. */
export const classPath: string = `${classes}:${jars}/*`

/** Java is not available here, which is not a failure of the tests. */
export class NoJava extends Error {}

const needed = [
  { program: 'javac', oldest: 17, what: 'a JDK of 17 or newer (javac)', package: 'default-jdk-headless' },
  { program: 'mvn', oldest: 3, what: 'Maven (mvn)', package: 'maven' },
] as const

/** Makes sure of a JDK and Maven: as root on Debian by installing what is missing. */
export async function provideJava(): Promise<void> {
  const missing = missingTools()
  if (missing.length === 0) return
  const names = missing.map(({ what }) => what).join(' and ')
  const refusal = aptRefusal()
  if (refusal !== undefined) throw noTools(names, `apt-get was not tried: ${refusal}`)
  try {
    await aptInstall(missing.map((tool) => tool.package))
  } catch (error) {
    throw noTools(names, messageOf(error))
  }
  if (missingTools().length > 0) throw new NoJava(`${names} installed, and still not on PATH`)
}

function noTools(names: string, why: string): NoJava {
  const advice = 'Debian and Ubuntu: default-jdk-headless maven; Homebrew: openjdk maven'
  return new NoJava(`missing on PATH: ${names}. Install what is missing (${advice}). ${why}`)
}

/** Fetches Curator and Redisson, and compiles the programs of this folder. */
export async function buildPeers(): Promise<void> {
  await fetchJars()
  await rm(classes, { recursive: true, force: true })
  await mkdir(classes, { recursive: true })
  const sources = join(home, 'src/main/java')
  const files = (await readdir(sources)).map((file) => join(sources, file))
  await promisify(execFile)('javac', [
    '--release',
    '17',
    // Otherwise that of the locale, which may be none.
    '-encoding',
    'UTF-8',
    '-Xlint:all',
    '-cp',
    `${jars}/*`,
    '-d',
    classes,
    ...files,
  ])
}

async function fetchJars(): Promise<void> {
  const pom = await readFile(join(home, 'pom.xml'), 'utf8')
  const stamp = join(target, 'pom.xml')
  if ((await readFile(stamp, 'utf8').catch(() => '')) === pom) return
  await rm(target, { recursive: true, force: true })
  await mkdir(target, { recursive: true })
  process.stderr.write('locks: fetching Curator and Redisson with Maven\n')
  const flags = ['-q', '-B', ...repository(), '-f', join(home, 'pom.xml'), `-DoutputDirectory=${jars}`]
  try {
    await promisify(execFile)('mvn', [...flags, 'dependency:copy-dependencies'])
  } catch (error) {
    throw new NoJava(`Maven cannot fetch Curator and Redisson: ${reportOf(error)}`)
  }
  // Last, so that half a download is not taken for a whole one.
  await writeFile(stamp, pom)
}

/** Java looks for a home in the list of users only; who has another one has it for a reason. */
function repository(): readonly string[] {
  const { HOME } = process.env
  return HOME === undefined || HOME === listedHome() ? [] : [`-Dmaven.repo.local=${HOME}/.m2/repository`]
}

function listedHome(): string | undefined {
  try {
    return userInfo().homedir
  } catch {
    return undefined
  }
}

/** Maven complains on its standard output. */
function reportOf(error: unknown): string {
  const output = error instanceof Error && 'stdout' in error ? String(error.stdout).trim() : ''
  return output === '' ? messageOf(error) : output.split('\n').slice(0, 5).join('\n')
}

function missingTools(): (typeof needed)[number][] {
  return needed.filter(({ program, oldest }) => {
    const { status, stdout, stderr } = spawnSync(program, ['-version'], { encoding: 'utf8' })
    const [, version] = /(\d+)\./.exec(`${stdout}${stderr}`) ?? []
    return status !== 0 || Number(version) < oldest
  })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
