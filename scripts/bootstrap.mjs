import { accessSync, constants, existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { CommandFailed, root, run, runMain, step } from './lib/run.mjs'

const OLDEST_NODE = [20, 19]

/**
 * Installs the workspace and builds every package, with nothing but Node and npm on the machine.
 * Afterwards `pnpm` is on this process's PATH in the exact version the workspace asks for.
 */
export async function bootstrap() {
  requireNode()
  await providePnpm()
  await step('installing', () => run('pnpm', ['install', '--frozen-lockfile'], { env: { CI: 'true' } }))
  await step('building', () => run('turbo', ['run', 'build', '--output-logs=errors-only']))
}

export async function providePnpm() {
  process.env['TURBO_TELEMETRY_DISABLED'] = '1'
  process.env['COREPACK_ENABLE_DOWNLOAD_PROMPT'] = '0'
  await provideHome()
  const version = await wantedPnpm()
  if ((await pnpmOnPath()) === version) return
  // Kept inside the repository: no global install, and the second run needs no network.
  const home = join(root, '.cache', `pnpm-${version}`)
  const binaries = join(home, 'node_modules', '.bin')
  if (!existsSync(join(binaries, 'pnpm')))
    await step(`fetching pnpm ${version}`, () => fetchPnpm(version, home))
  process.env['PATH'] = [binaries, process.env['PATH']].join(delimiter)
  const found = await pnpmOnPath()
  if (found !== version) {
    throw new CommandFailed(
      `pnpm ${version} is needed, got ${found ?? 'none'}; remove ${home} and try again`,
      1,
    )
  }
}

/**
 * npm, pnpm and others keep what they fetch in the user's home. A user without a writable home, such as a
 * numeric user of a container, gets one inside the repository.
 */
async function provideHome() {
  const own = ownHome()
  if (own !== undefined && isWritable(own)) {
    process.env['HOME'] = own
    return
  }
  const home = join(root, '.cache', 'home')
  await mkdir(home, { recursive: true })
  process.env['HOME'] = home
  // If npm runs this script, its environment names the place.
  process.env['npm_config_cache'] = join(home, '.npm')
  const settings = own === undefined ? '' : join(own, '.npmrc')
  if (existsSync(settings)) process.env['npm_config_userconfig'] ??= settings
}

function ownHome() {
  try {
    return homedir()
  } catch {
    return undefined
  }
}

/** @param {string} folder */
function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

async function wantedPnpm() {
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  return String(manifest.packageManager).replace(/^pnpm@/, '')
}

async function pnpmOnPath() {
  try {
    const { exitCode, stdout } = await run('pnpm', ['--version'])
    return exitCode === 0 ? stdout.trim() : undefined
  } catch {
    return undefined
  }
}

/**
 * @param {string} version
 * @param {string} home
 */
async function fetchPnpm(version, home) {
  const draft = `${home}.${process.pid}`
  await rm(home, { recursive: true, force: true })
  await mkdir(draft, { recursive: true })
  const options = ['--no-save', '--no-package-lock', '--no-audit', '--no-fund', '--ignore-scripts']
  const result = await run('npm', ['install', '--prefix', draft, ...options, `pnpm@${version}`])
  // Renamed only when complete, so an interrupted download is never taken for an installation.
  if (result.exitCode === 0 && !existsSync(home)) await rename(draft, home)
  await rm(draft, { recursive: true, force: true })
  return result
}

function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return
  throw new CommandFailed(
    `Node ${OLDEST_NODE.join('.')} or newer is needed; this is ${process.versions.node}`,
    1,
  )
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await runMain(bootstrap)
