import { LockError } from '@locks/core'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pass } from 'node:timers/promises'
import {
  assertInTime,
  block,
  eventually,
  inTime,
  isVoidRun,
  judgeFailure,
  stallMeter,
  startChild,
  untilValid,
} from '@locks/core/conformance'
import { describe, expect, onTestFinished, test } from 'vitest'

/** Stops a process at once, and continues it after `ms`. Resolves when it was continued. */
async function stop(pid: number, ms: number): Promise<void> {
  const shell = spawn('sh', ['-c', `kill -STOP ${pid}; sleep ${ms / 1_000}; kill -CONT ${pid}`])
  const exited = once(shell, 'exit')
  // Not ended before its time: nobody else continues the process.
  onTestFinished(async () => void (await exited))
  await exited
}

/** Judges a pause of half a second with a bound that was missed by half of that, whenever the pause began. */
async function missedBy(pid: number, startedAt: number): Promise<Error> {
  await stop(pid, 500)
  const tookMs = performance.now() - startedAt
  return failureOf(assertInTime('the end', tookMs - 250, tookMs))
}

async function child(): Promise<Awaited<ReturnType<typeof startChild>>> {
  const started = await startChild()
  onTestFinished(() => started.kill())
  // It answers, so it runs and its heartbeat too.
  await started.call('timers', {})
  return started
}

async function failureOf(outcome: Promise<unknown>): Promise<Error> {
  const error: unknown = await outcome.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof Error) return error
  throw new Error('it should have failed')
}

/** If the machine itself was paused meanwhile, this test is void. */
async function lateness(outcome: Promise<unknown>): Promise<Error> {
  const error = await failureOf(outcome)
  if (isVoidRun(error)) throw error
  return error
}

test('a bound that is kept passes, with or without a stall', async () => {
  void stop(process.pid, 300)
  await pass(400)
  await assertInTime('the pause', 5_000, 900)
  expect(await inTime('an answer', 5_000, Promise.resolve(42))).toBe(42)
  expect(await eventually('an answer', 5_000, () => 42)).toBe(42)
})

describe('a bound that is missed without a stall fails', () => {
  test('measured', async () => {
    const start = performance.now()
    await pass(600)
    const bound = { ms: 200, from: 'ttlMs' }
    const error = await lateness(assertInTime('the end', bound, performance.now() - start))
    expect(error).toMatchObject({ name: 'LateError', code: 'ERR_ASSERTION' })
    expect(error.message).toMatch(/^the end: after \d{3} ms; the bound is 200 ms \(ttlMs\);/)
  })

  test('awaited', async () => {
    const error = await lateness(inTime('the end', 200, new Promise(() => undefined)))
    expect(error).toMatchObject({ name: 'LateError' })
    expect(error.message).toMatch(/^not yet: the end: /)
  })

  test('looked for', async () => {
    const error = await lateness(eventually('the end', 200, () => false))
    expect(error).toMatchObject({ name: 'LateError' })
  })

  test('"not yet" after the bound fails despite a stall where only the clock of the store counts', async () => {
    const bound = { ms: 200, passive: true }
    const looks = eventually('the end', bound, () => {
      void stop(process.pid, 50)
      return false
    })
    expect(await failureOf(looks)).toMatchObject({ name: 'LateError' })
  })

  test('computing all the time is no stall of the machine', async () => {
    const start = performance.now()
    const before = process.cpuUsage()
    while (process.cpuUsage(before).user < 500_000);
    const error = await lateness(assertInTime('the end', 200, performance.now() - start))
    expect(error).toMatchObject({ name: 'LateError' })
  })

  test('nor is an event loop that is blocked on purpose', async () => {
    const [start, before] = [performance.now(), process.cpuUsage()]
    block(500)
    const ms = performance.now() - start
    expect(ms).toBeGreaterThan(499)
    expect(process.cpuUsage(before).user, 'it computes').toBeLessThan(250_000)
    expect(await lateness(assertInTime('the end', 200, ms))).toMatchObject({ name: 'LateError' })
  })
})

describe('a bound that is missed because of a stall makes the run void and names what was paused', () => {
  test('this process', async () => {
    const start = performance.now()
    const error = await missedBy(process.pid, start)
    expect(error.message).toMatch(/^void: the end: after .* this process stood still for \d+ ms/)
    expect(isVoidRun(error)).toBe(true)
  })

  test('a child', async () => {
    const { pid } = await child()
    const start = performance.now()
    const error = await missedBy(pid, start)
    expect(error.message).toMatch(new RegExp(`child ${pid} stood still for \\d+ ms`))
    expect(isVoidRun(error)).toBe(true)
  })

  test.skipIf(process.platform !== 'linux')('a server', async () => {
    const server = spawn('sleep', ['60'])
    onTestFinished(() => void server.kill('SIGKILL'))
    const pid = server.pid ?? 0
    onTestFinished(stallMeter.watch(() => [pid]))
    const start = performance.now()
    const error = await missedBy(pid, start)
    expect(error.message).toMatch(/the server stood still for \d+ ms/)
    expect(isVoidRun(error)).toBe(true)
  })

  test('a store that answers late', async () => {
    let latencyMs = 1
    onTestFinished(stallMeter.probe(() => pass(latencyMs)))
    await pass(300)
    const start = performance.now()
    latencyMs = 500
    await pass(700)
    const tookMs = performance.now() - start
    const error = await failureOf(assertInTime('the end', tookMs - 250, tookMs))
    expect(error.message).toMatch(/the store, by its answers stood still for \d+ ms/)
  })
})

test('a time-out is excused by a stall of a third of the wait, or of the ttl if that is longer', async () => {
  const startedAt = performance.now()
  await stop(process.pid, 500)
  // Until the heartbeat has noticed.
  await pass(50)
  const after = (waitedMs?: number) =>
    new LockError('LOCK_TIMEOUT', 'held', waitedMs === undefined ? {} : { waitedMs })
  for (const excused of [after(), after(1_200)])
    expect(isVoidRun(await judgeFailure(excused, startedAt, 1_200))).toBe(true)
  const waitedLong = after(60_000)
  expect(await judgeFailure(waitedLong, startedAt, 1_200)).toBe(waitedLong)
})

test('a pause that a test makes on purpose excuses nothing', async () => {
  const paused = await child()
  const start = performance.now()
  paused.pause()
  await pass(500)
  paused.resume()
  const error = await lateness(assertInTime('the end', 350, performance.now() - start))
  expect(error).toMatchObject({ name: 'LateError' })
})

describe('runs', () => {
  const bound = (): Promise<never> => voided('the bound')

  async function voided(what: string): Promise<never> {
    const start = performance.now()
    await stop(process.pid, 500)
    const tookMs = performance.now() - start
    await assertInTime(what, tookMs - 250, tookMs)
    throw new Error('it should have been void')
  }

  test('a void run is followed by another, which decides', async () => {
    const why: string[] = []
    let runs = 0
    const run = (): Promise<string> => (++runs === 1 ? bound() : Promise.resolve('passed'))
    expect(await untilValid(run, ({ message }) => void why.push(message))).toBe('passed')
    expect(why).toEqual([expect.stringMatching(/^void: the bound/)])
    expect(runs).toBe(2)
  })

  test('after three void runs that is the outcome, and no success', async () => {
    let runs = 0
    const error = await failureOf(
      untilValid(() => {
        runs += 1
        return bound()
      }),
    )
    expect(runs).toBe(3)
    expect(isVoidRun(error)).toBe(true)
    expect(error.message).toMatch(/^void: in each of 3 runs, the last one: the bound/)
  })

  test('a failure is never tried again', async () => {
    let runs = 0
    const failing = async (): Promise<void> => {
      runs += 1
      throw new Error('two holders')
    }
    await expect(untilValid(failing)).rejects.toThrow('two holders')
    expect(runs).toBe(1)
  })
})
