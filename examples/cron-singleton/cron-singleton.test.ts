import { join } from 'node:path'
import { expect, test } from 'vitest'
import { eventually, scaled } from '../../conformance/services/timing.ts'
import { start, workplace } from '../test-support/program.ts'

const program = join(import.meta.dirname, 'main.mjs')
const TICK_MS = 500
const MIN_HOLD_MS = TICK_MS * 0.8
const RUNS = 16

test(
  'three processes work on every tick once, and leave the others to know by the lock',
  {
    timeout: scaled(60_000),
  },
  async () => {
    const startedAt = performance.now()
    // Each in its own directory, like a separate host: only the store is shared.
    const store = `file:${join(await workplace(), 'locks')}`
    const programs = await Promise.all(
      [1, 2, 3].map(async () =>
        start(program, { cwd: await workplace(), env: { TICK_MS: String(TICK_MS), LOCKS_URL: store } }),
      ),
    )
    // They end cleanly.
    for (const each of programs) await each.said(/waiting for ticks/)
    const fences = (): string[] =>
      programs.flatMap(({ output }) =>
        [...output.matchAll(/ under fence (\d+)/g)].map(([, fence = '']) => fence),
      )
    await eventually(`${RUNS} runs`, () => fences().length >= RUNS, { withinMs: 40_000 })
    // Counted before the time is read, so that a late read cannot inflate the count.
    const runs = fences().length
    expect(runs).toBeLessThanOrEqual((performance.now() - startedAt) / MIN_HOLD_MS + 1)
    for (const each of programs) each.kill('SIGTERM')
    for (const { ended } of programs) expect((await ended).exitCode).toBe(0)
    expect(new Set(fences()).size).toBe(fences().length)
    expect(programs.some(({ output }) => /tick \d+ is done by \d+/.test(output))).toBe(true)
  },
)
