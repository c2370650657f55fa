import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startService } from '../../../conformance/services/index.ts'
import { againCommand } from '../src/conformance/again.ts'
import { directory, inTime, locks } from './support/cli.ts'

/** An adapter module in a directory of its own: a package, if it has a manifest. */
async function adapter(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await directory()
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return folder
}

const memory = JSON.stringify(new URL('../../memory/dist/index.js', import.meta.url).href)

test('the command that runs a rule alone can be pasted, and shows no password', () => {
  expect(againCommand({ target: 'redis://localhost', ttl: '2s' }, 'CRASH-3')).toBe(
    'locks conformance redis://localhost --only CRASH-3 --ttl 2s',
  )
  expect(againCommand({ target: 'redis://:secret@localhost' }, 'CRASH-3')).toBe(
    'locks conformance URL --only CRASH-3',
  )
  expect(againCommand({ target: "./my adapter's" }, 'OWN-1')).toBe(
    String.raw`locks conformance './my adapter'\''s' --only OWN-1`,
  )
})

describe('locks conformance', inTime, () => {
  test('runs the selected rules against a URL, and lists the rules that do not apply', async () => {
    const { code, stdout, stderr } = await locks(['conformance', 'memory:', '--only', 'atomicity,own-1'])
      .ended
    expect(code).toBe(0)
    expect(stderr).toMatch(/^✓ ATOM-1 of many concurrent attempts .* \d+ ms$/m)
    expect(stdout).toMatch(/^atomicity +4 +· +1 +·$/m)
    expect(stdout).toMatch(/^ownership +1 +· +· +·$/m)
    expect(stdout).toMatch(/^  scope is process: ATOM-3$/m)
    expect(stdout).toMatch(
      /^5 passed, 0 failed, 1 not applicable, 0 not tried\nNode v\d+.*, ttl 1\.0 s .*, 4 rules at a time$/m,
    )
  })

  test('resolves a directory like a package: exports, main, or index.js', async () => {
    const text = `export * from ${memory}`
    for (const files of [
      {
        'package.json': '{ "exports": { ".": { "types": "./x.d.ts", "import": "./own.mjs" } } }',
        'own.mjs': text,
      },
      { 'package.json': '{ "main": "own.mjs" }', 'own.mjs': text },
      { 'package.json': '{ "type": "module" }', 'index.js': text },
    ]) {
      const { code, stdout } = await locks(['conformance', await adapter(files), '--only', 'OWN-1', '--json'])
        .ended
      expect(code).toBe(0)
      expect(JSON.parse(stdout)).toMatchObject({
        passed: 1,
        failed: 0,
        outcomes: [{ id: 'OWN-1', state: 'passed' }],
      })
    }
  })

  test('passes options to the adapter, and shows a failure with rule, promise and assertion', async () => {
    const source = `import { fromConfig as memory } from ${memory}
export const fromConfig = ({ broken }) => {
  const factory = memory({})
  return (host) => ({ ...factory(host), ...(broken && { release: async () => 'released' }) })
}`
    const folder = await adapter({ 'own.mjs': source, 'options.json': '{ "broken": true }' })
    const html = join(folder, 'report.html')
    const target = join(folder, 'own.mjs')
    const { code, stdout } = await locks([
      ...[
        'conformance',
        target,
        '--options',
        join(folder, 'options.json'),
        '--only',
        'OWN-1,OWN-7',
        '--html',
        html,
      ],
    ]).ended
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /^✗ OWN-1 a release with a foreign attempt id frees nothing and returns not-held\n    .*\n/m,
    )
    expect(stdout).toContain("- 'not-held'")
    const again = `locks conformance ${target} --only OWN-1 --options ${join(folder, 'options.json')}`
    expect(stdout).toContain(`    Run it alone: ${again}\n`)
    const page = await readFile(html, 'utf8')
    expect(page).toMatch(/<li class="failed"[^>]*>✗ OWN-1</)
    expect(page).toContain('&#39;not-held&#39;')
    expect(page).toContain(`Run it alone: <code>${again}</code>`)
    expect(page).toContain(`Node ${process.version}`)
    expect(page).not.toMatch(/<(script|link|img)|https?:/)
  })

  test('a URL with one server is also tested through a proxy', async () => {
    const redis = await startService('redis')
    onTestFinished(() => redis.close())
    const { code, stdout } = await locks(['conformance', redis.url, '--only', 'LOST-9,CONN-3', '--json'])
      .ended
    expect(JSON.parse(stdout)).toMatchObject({ passed: 2, failed: 0, notTried: 0, jobs: 4, ttlMs: 1_000 })
    expect(code).toBe(0)
  })

  test('a rule whose needs the run lacks is not tried, and is distinguished from one that does not apply', async () => {
    const folder = await directory()
    const { stdout } = await locks(['conformance', `file:${folder}`, '--only', 'CONN-3,RENEW-18', '--json'])
      .ended
    expect(JSON.parse(stdout)).toMatchObject({
      passed: 0,
      outcomes: [
        { id: 'RENEW-18', state: 'not applicable', reason: 'kind is lease' },
        { id: 'CONN-3', state: 'not tried', reason: 'no way through a proxy was given' },
      ],
    })
  })

  test('a rule that ends its process fails alone, and output of the adapter is not part of the result', async () => {
    const source = `import { fromConfig as memory } from ${memory}
const factory = memory({})
export const fromConfig = () => (host) => ({
  ...factory(host),
  release: async () => {
    console.log('printed')
    setImmediate(() => { throw new Error('thrown where nobody catches') })
    return new Promise(() => undefined)
  },
  inspect: async () => process.exit(3),
})`
    const target = join(await adapter({ 'own.mjs': source }), 'own.mjs')
    const only = 'OWN-1,ATOM-2,HYG-8'
    const { code, stdout } = await locks(['conformance', target, '--only', only, '--jobs', '1', '--json'])
      .ended
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      outcomes: [
        { id: 'ATOM-2', state: 'passed' },
        { id: 'OWN-1', state: 'failed' },
        { id: 'HYG-8', state: 'failed', reason: 'the process that ran it exited with 3' },
      ],
    })
    expect(stdout).toContain(
      'the process that ran it exited with 1: uncaught Error: thrown where nobody catches',
    )
  })

  test('a process that dies unnoticed before a rule fails that rule, not the command', async () => {
    const source = `import { writeFileSync } from 'node:fs'
export * from ${memory}
writeFileSync(new URL('pid', import.meta.url), String(process.pid))`
    const folder = await adapter({ 'own.mjs': source })
    const module = new URL('../dist/conformance/start-worker.js', import.meta.url).href
    const script = `import { readFileSync } from 'node:fs'
import { startWorker } from ${JSON.stringify(module)}
const [target, pid] = ${JSON.stringify([join(folder, 'own.mjs'), join(folder, 'pid')])}
const ignore = () => undefined
const watch = { onClose: ignore, onOutput: ignore, onName: ignore }
const worker = await startWorker({ target, options: {} }, watch)
process.kill(Number(readFileSync(pid, 'utf8')), 'SIGKILL')
// It is dead before anything of that can be noticed here.
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
console.log((await worker.run(worker.cases[0])).reason)`
    const via = [process.execPath, '--input-type=module', '--eval', script] as const
    expect(await locks([], { via }).ended).toMatchObject({
      code: 0,
      stdout: 'the process that ran it was ended by SIGKILL\n',
    })
  })

  test('draws the holds of contended rules', async () => {
    const html = join(await directory(), 'report.html')
    const call = locks(['conformance', 'memory:', '--only', 'UNIQ-2,UNIQ-4', '--html', html])
    expect((await call.ended).code).toBe(0)
    const page = await readFile(html, 'utf8')
    expect(page).toContain('aria-label="320 holds in ')
    expect(page.match(/<rect class="c\d"/g)).toHaveLength(640)
    expect(page).not.toContain('class="clash"')
  })

  test('a target that is not an adapter, or an unknown rule, is a usage error', async () => {
    const folder = await adapter({ 'nothing.mjs': 'export {}', 'bad.mjs': 'syntax error' })
    const mistakes = [
      [[join(folder, 'nothing.mjs')], /is not an adapter/],
      [[join(folder, 'bad.mjs')], /cannot load/],
      [['./not-here'], /\.\/not-here does not exist/],
      [['not-installed-anywhere'], /npm install not-installed-anywhere/],
      [['memory:', '--only', 'nonsense'], /unknown rule or area "nonsense"/],
      [['memory:nice/try'], /url must be memory/],
    ] as const
    const ended = await Promise.all(mistakes.map(([args]) => locks(['conformance', ...args]).ended))
    for (const [n, { code, stderr }] of ended.entries()) {
      const [args, message] = mistakes[n] ?? []
      expect({ args, code }).toEqual({ args, code: 2 })
      expect(stderr).toMatch(message ?? '')
    }
  })

  test('an unreachable server is reported at once, not by every rule', async () => {
    const { code, stdout, stderr } = await locks(['conformance', 'redis://127.0.0.1:1']).ended
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' })
    expect(stderr).toMatch(/^locks: .*ECONNREFUSED/m)
    expect(stderr).not.toContain('✗')
  })

  test('a report file that cannot be written is reported before any rule runs', async () => {
    const html = join(await directory(), 'nowhere', 'report.html')
    const { code, stderr } = await locks(['conformance', 'memory:', '--only', 'OWN-1', '--html', html]).ended
    expect(code).toBe(2)
    expect(stderr).toContain(`cannot write --html ${html}`)
    expect(stderr).not.toContain('OWN-1')
  })

  test('interrupted, it ends its processes and exits with 130', async () => {
    const folder = await directory()
    const call = locks(['conformance', `file:${folder}`, '--only', 'UNIQ,CRASH'])
    await call.said(/^✓ /m)
    call.kill('SIGINT')
    // All processes of it write to the same stderr, which ends with the last of them.
    const { code, stdout, stderr } = await call.ended
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' })
    // What was cut short has not failed.
    expect(stderr).not.toContain('✗')
  })
})
