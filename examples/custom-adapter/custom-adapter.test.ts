import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { scope } from '../../conformance/selection.ts'
import { scaled } from '../../conformance/services/timing.ts'

const here = import.meta.dirname
const program = join(here, 'node_modules', '.bin', 'locks')

async function locks(...args: string[]): Promise<{ code: number | null; stdout: string }> {
  const child = spawn(program, args, { cwd: join(here, '..', '..'), stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, stdout }))
  })
}

async function workplace(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'locks-custom-adapter-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** A copy of this example with one line changed. */
async function copyWith(find: string, replace: string): Promise<string> {
  const copy = await workplace()
  for (const file of ['package.json', 'index.mjs', 'adapter.mjs', 'store.mjs', 'server.mjs', 'subject.mjs'])
    await cp(join(here, file), join(copy, file))
  await symlink(join(here, 'node_modules'), join(copy, 'node_modules'))
  const adapter = join(copy, 'adapter.mjs')
  const text = await readFile(adapter, 'utf8')
  expect(text.split(find)).toHaveLength(2)
  await writeFile(adapter, text.replace(find, replace))
  return copy
}

/** The whole suite with `npm test -- --all`; what an adapter decides most of in the usual run. */
const areas = scope() === 'all' ? [] : ['--only', 'uniqueness,ownership,fencing']

test('the adapter passes the suite, by one command', { timeout: scaled(240_000) }, async () => {
  const html = join(await workplace(), 'report.html')
  const { code, stdout } = await locks('conformance', './examples/custom-adapter', '--html', html, ...areas)
  expect(stdout.match(/^✗ .*(?:\n .*)*/gm) ?? []).toEqual([])
  expect(stdout).toMatch(/^ownership +10 +· +1 +·$/m)
  expect(stdout).toMatch(/^\d{2,3} passed, 0 failed, \d+ not applicable, \d+ not tried$/m)
  expect(code).toBe(0)
  const page = await readFile(html, 'utf8')
  expect(page).toContain('<li class="passed"')
  for (const rule of ['UNIQ-1', 'UNIQ-2', 'UNIQ-3', 'UNIQ-4'])
    expect(page).toMatch(new RegExp(`<b>${rule}</b>[^]*?<rect class="c\\d"`))
})

test.each(['adapter.mjs', 'index.mjs'])('the guide shows %s as it is', async (file) => {
  const guide = await readFile(join(here, '../../docs/writing-an-adapter.md'), 'utf8')
  expect(guide).toContain(`\`\`\`js\n${await readFile(join(here, file), 'utf8')}\`\`\`\n`)
})

test(
  'without an owner check in release, the suite names the rules that are broken',
  { timeout: scaled(120_000) },
  async () => {
    const copy = await copyWith('hold?.attemptId === attemptId ?', 'hold !== undefined ?')
    const { code, stdout } = await locks('conformance', copy, '--only', 'ownership')
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /^✗ OWN-1 a release with a foreign attempt id frees nothing and returns not-held$/m,
    )
    expect(stdout).toMatch(/^✗ OWN-3 an expired owner cannot release its successor's lock$/m)
    expect(stdout).toMatch(/'not-held'/)
    expect(stdout).toMatch(/, [1-9]\d* failed, /)
  },
)
