import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { directory, inTime, locks, node, program, store, waitForEnd } from './support/cli.ts'
import type { Call } from './support/cli.ts'

/** Set, since `script` would otherwise start the shell of the user. */
const shell = { SHELL: '/bin/sh' }

/** Why there is no pseudo-terminal to test with: a minimal system has no script, a minimal chroot no /dev/pts. */
const missing = whyNoTerminal()

function whyNoTerminal(): string | undefined {
  const { status, stdout, error } = spawnSync('script', ['-qec', 'tty', '/dev/null'], {
    encoding: 'utf8',
    env: { ...process.env, ...shell },
  })
  if (error !== undefined) return 'there is no command script (util-linux) to make a pseudo-terminal'
  return status === 0 && stdout.includes('/dev/') ? undefined : 'this system has no pseudo-terminal'
}

/** Starts `locks` on a pseudo-terminal; `type` writes to its keyboard. */
function onTerminal(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  redirection = '',
): Call {
  const quoted = [process.execPath, program, ...args]
    .map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`)
    .join(' ')
  // By exec: a shell that stays between answers Ctrl-C with an exit code of its own (dash does, bash does not).
  const via = ['script', '-qec', `exec ${quoted} ${redirection}`, '/dev/null'] as const
  return locks([], { via, env: { TERM: 'xterm', ...shell, ...env } })
}

/** One that nobody has reaped does not run any more. */
function isRunning(pid: string): boolean {
  const file = `/proc/${pid}/stat`
  return existsSync(file) && !/ \(.*\) Z /.test(readFileSync(file, 'utf8'))
}

/** The lines as they stand on a terminal in the end: what is drawn over is gone. */
function screenOf(output: string): readonly string[] {
  return output.split(/\r?\n/).map((line) => {
    // eslint-disable-next-line no-control-regex
    const drawn = line.split(/\r?\u001B\[2K/).at(-1) ?? ''
    return stripVTControlCharacters(drawn)
  })
}

const colour = '\u001B['

describe('on a terminal', inTime, () => {
  test('ls --watch shows the latest list in place of the last one, until Ctrl-C', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url, client } = await store()
    await client.lock('job', { label: 'somebody' }).acquire()
    const watching = onTerminal(['ls', '--watch', '--every', '100ms', '--url', url])
    await watching.said(/(\[H.\[J[^]*job +somebody[^]*){2}/)
    watching.type('\u0003')
    expect((await watching.ended).code).toBe(130)
  })

  test('break shows the holder and asks; no leaves the hold, and yes breaks it', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url, client } = await store()
    const lease = await client.lock('job', { label: 'somebody' }).acquire()
    const no = onTerminal(['break', 'job', '--url', url])
    await no.said(/job is held by somebody .*[^]*Break this hold\? \[y\/N\]/)
    no.type('n\n')
    expect((await no.ended).code).toBe(1)
    await lease.extend()
    const yes = onTerminal(['break', 'job', '--url', url])
    await yes.said(/Break this hold/)
    yes.type('y\n')
    const { code, stdout } = await yes.ended
    expect(stdout).toContain('broken: job')
    expect(code).toBe(0)
    expect(await client.inspect('job')).toMatchObject({ held: false })
  })

  test('Ctrl-C at the question exits with 130, and the holder keeps the lock', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url, client } = await store()
    const lease = await client.lock('job').acquire()
    const call = onTerminal(['break', 'job', '--url', url])
    await call.said(/Break this hold/)
    call.type('\u0003')
    expect((await call.ended).code).toBe(130)
    await lease.extend()
  })

  test('Ctrl-C reaches the command of run once, and its exit code is returned', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url, client } = await store()
    const source = `let n = 0; process.on("SIGINT", () => { n += 1; setTimeout(() => { console.log("interrupts: " + n); process.exit(5) }, 300) }); ${waitForEnd}`
    const call = onTerminal(['run', 'job', '--url', url, ...node(source)])
    await call.said(/ready/)
    call.type('\u0003')
    const { code, stdout } = await call.ended
    expect(stdout).toContain('interrupts: 1')
    expect(code).toBe(5)
    expect(await client.inspect('job')).toMatchObject({ held: false })
  })

  test('a lost lock ends the command of run and its child processes', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    if (!existsSync('/proc/self/stat')) skip('there is no /proc to see it by')
    const { url, client } = await store()
    const child = JSON.stringify(['--eval', waitForEnd])
    const source = `const child = require("node:child_process").spawn(process.execPath, ${child}, { stdio: "inherit" }); console.log("pid " + child.pid); setInterval(() => {}, 1_000)`
    const ttl = `${scaled(15_000)}ms`
    const call = onTerminal(['run', 'job', '--url', url, '--ttl', ttl, ...node(source)])
    const [, pid = ''] = await call.said(/pid (\d+)/)
    await call.said(/ready/)
    await client.lock('job').break()
    expect((await call.ended).code).toBe(76)
    expect(isRunning(pid)).toBe(false)
  })

  test('the command of run can read the keyboard', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url } = await store()
    const source =
      'console.log("ready " + process.stdin.isTTY); process.stdin.once("data", (text) => { console.log("got " + text); process.exit(0) })'
    const call = onTerminal(['run', 'job', '--url', url, ...node(source)])
    await call.said(/ready true/)
    call.type('hello\n')
    await call.said(/got hello/)
    expect((await call.ended).code).toBe(0)
  })

  test('the command of run reaches the terminal when its input is redirected', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url } = await store()
    const source = `const { openSync, readSync, writeSync } = require("node:fs");
      const terminal = openSync("/dev/tty", "r+"); writeSync(terminal, "password? ");
      const typed = Buffer.alloc(100); const length = readSync(terminal, typed);
      console.log("got " + typed.toString("utf8", 0, length))`
    const call = onTerminal(['run', 'job', '--url', url, ...node(source)], {}, '< /dev/null')
    await call.said(/password\? /)
    call.type('secret\n')
    await call.said(/got secret/)
    expect((await call.ended).code).toBe(0)
  })

  test('Ctrl-C reaches the command of run once when its input is redirected', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const { url } = await store()
    const source = `let n = 0; process.on("SIGINT", () => { n += 1; setTimeout(() => { console.log("interrupts: " + n); process.exit(5) }, 300) }); ${waitForEnd}`
    const call = onTerminal(['run', 'job', '--url', url, ...node(source)], {}, '< /dev/null')
    await call.said(/ready/)
    call.type('\u0003')
    const { code, stdout } = await call.ended
    expect(stdout).toContain('interrupts: 1')
    expect(code).toBe(5)
  })

  test('output of an adapter is on separate lines with its rule, and the HTML report has no colour codes', async ({
    skip,
  }) => {
    if (missing !== undefined) skip(missing)
    const folder = await directory()
    const memory = JSON.stringify(new URL('../../memory/dist/index.js', import.meta.url).href)
    // It colours, goes back to the beginning of the line, and ends without one.
    const source = `import { fromConfig as memory } from ${memory}
const noise = '\\u001B[31mnoi\\rse\\u001B[2K\\nand more\\n'
export const fromConfig = () => (host) => ({
  ...memory({})(host), release: async () => { process.stderr.write(noise); return 'released' },
})`
    await writeFile(join(folder, 'own.mjs'), source)
    const page = join(folder, 'report.html')
    const args = ['conformance', join(folder, 'own.mjs'), '--only', 'OWN', '--jobs', '2', '--html', page]
    const { code, stdout } = await onTerminal(args).ended
    expect(code).toBe(1)
    const shown = screenOf(stdout)
    const noise = shown.filter((line) => /noise|and more/.test(line))
    expect(noise.length).toBeGreaterThan(1)
    for (const line of noise) expect(line).toMatch(/^\[OWN-\d+\] (noise|and more)$/)
    // The progress goes on below what was printed.
    expect(stdout).toMatch(/and more\r?\n\d+\/\d+ OWN-\d+ /)
    const html = await readFile(page, 'utf8')
    expect(html).toContain('class="failed"')
    expect(html).not.toContain('\u001B')
  })

  test('output is coloured, except with NO_COLOR or into a pipe', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const url = `file:${await directory()}`
    expect((await onTerminal(['--help']).ended).stdout).toContain(colour)
    expect((await onTerminal(['--help'], { NO_COLOR: '1' }).ended).stdout).not.toContain(colour)
    expect((await locks(['doctor', url]).ended).stdout).not.toContain(colour)
  })
})
