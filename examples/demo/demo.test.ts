import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const program = fileURLToPath(new URL('main.mjs', import.meta.url))

interface Demo {
  interrupt(): void
  said(text: string): Promise<void>
  /** Every process of the demo inherits its stderr, so that pipe closes when the last of them is gone. */
  readonly everybodyGone: Promise<{ exitCode: number | null; output: string }>
}

function startDemo(...args: string[]): Demo {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  const readers: (() => void)[] = []
  const read = (text: string): void => {
    output += text
    for (const reader of readers) reader()
  }
  child.stdout.setEncoding('utf8').on('data', read)
  child.stderr.setEncoding('utf8').on('data', read)
  return {
    interrupt() {
      // Twice, as from a terminal and from a script that passes it on.
      child.kill('SIGINT')
      child.kill('SIGINT')
    },
    said: (text) =>
      new Promise((resolve) => {
        readers.push(() => {
          if (output.includes(text)) resolve()
        })
      }),
    everybodyGone: new Promise((resolve) => {
      child.once('close', (exitCode) => resolve({ exitCode, output }))
    }),
  }
}

test('every claim holds, with several real processes', { timeout: 60_000 }, async () => {
  const { exitCode, output } = await startDemo().everybodyGone
  const claims = output.split('\n').filter((line) => /^[✔✘]/u.test(line))
  expect(claims).toEqual([
    expect.stringMatching(/^✔ without a lock: \d+ sold of 100, \d+ too many$/),
    expect.stringMatching(/^✔ with the lock: 100 sold of 100, each item once$/),
    expect.stringMatching(/^✔ \d+ holds for \d+ buyers, \d+ hand-offs between processes, \d+\/s$/),
    expect.stringMatching(/^✔ holder killed: the next one held after \d\.\d+ s, ttl 2\.00 s/),
    expect.stringMatching(/^✔ holder paused: taken over after \d\.\d+ s, ttl 2\.00 s/),
    expect.stringMatching(/^✔ woken up, its lease is lost and its caller gets LOCK_LOST$/),
    expect.stringMatching(/^✔ its late write with fence \d+ is refused: the warehouse has seen \d+$/),
  ])
  expect(exitCode).toBe(0)
})

test.each(['Selling with a lock', 'is paused with SIGSTOP'])(
  'interrupted at "%s", no process is left behind',
  async (moment) => {
    const demo = startDemo()
    await demo.said(moment)
    demo.interrupt()
    const { exitCode, output } = await demo.everybodyGone
    expect(output).toContain('interrupted (SIGINT)')
    expect(exitCode).toBe(130)
  },
)

test('a backend that processes cannot share is refused', async () => {
  const { exitCode, output } = await startDemo('--url', 'memory:').everybodyGone
  expect(output).toContain('keeps its locks inside one process')
  expect(exitCode).toBe(2)
})

test('a backend that cannot be reached is named', async () => {
  const config = JSON.stringify({ adapter: '@locks/reference', url: 'tcp://127.0.0.1:1' })
  const { exitCode, output } = await startDemo('--url', config).everybodyGone
  expect(output).toContain('cannot reach the backend @locks/reference')
  expect(exitCode).toBe(2)
})
