import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createLocks, LockError } from '@locks/core'
import type { Lease } from '@locks/core'
import { createRecorder, eventually, readHistory } from '@locks/core/conformance'
import type { HistoryEvent, Recorder } from '@locks/core/conformance'
import { memory } from '@locks/memory'
import { describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { startWorker } from '../dist/torture/worker-slot.js'
import type { Worker } from '../dist/torture/worker-slot.js'
import type { FaultKind } from '../src/torture/faults.ts'
import { checkEnd, checkProgress, checkSubstance, leastGrants } from '../src/torture/liveness.ts'
import { patiently, watchWorkers } from '../src/torture/patience.ts'
import { fencedResource } from '../src/torture/resource.ts'
import { seeded } from '../src/torture/random.ts'
import { tryWith } from '../src/torture/run-task.ts'
import type { Task } from '../src/torture/task.ts'
import { judge } from '../src/torture/verdict.ts'
import { directory, store } from './support/cli.ts'

// Each check of a run, made to fail by the least that must make it fail. The verdict about holds: torture-checks.

const lingering = { lingerMs: 2_000, watched: false, sessions: false }
const bounds = { ttlMs: 1_000, ...lingering, fenced: true, byConnection: false }

/** Two holds of `n`, one after the other, and writes under these fences. */
function writes(...fences: readonly bigint[]): HistoryEvent[] {
  const holds = [1n, 2n].flatMap((fence, n): HistoryEvent[] => {
    const act = { process: 'w1.1', name: 'n', task: 't1' }
    const from = 10 + n * 10
    return [
      { ...act, t: from, type: 'acquire-called' },
      { ...act, t: from + 1, type: 'granted', fence, deadline: from + 2 },
      { ...act, t: from + 3, type: 'release-called', fence },
      { ...act, t: from + 4, type: 'released', fence },
    ]
  })
  const accepted = { process: 'resource', type: 'resource-accepted', name: 'n' } as const
  return [...holds, ...fences.map((fence, n) => ({ ...accepted, t: 50 + n, fence }))]
}

describe('stale write', () => {
  const found = (...fences: readonly bigint[]): readonly string[] =>
    judge(writes(...fences), bounds).violations.map(({ check, message }) => `${check}: ${message}`)

  test('is reported when the resource accepts a lower fence after a higher one, or one never granted', () => {
    expect(found(1n, 2n, 2n)).toEqual([])
    expect(found(1n, 2n, 1n)).toEqual(['stale write: the resource of n accepted fence 1 after 2'])
    expect(found(2n, 3n)).toEqual([
      'stale write: the resource of n accepted fence 3, which was never granted',
    ])
  })

  test('is refused by the resource itself, which is recorded', async () => {
    const { recorder, types } = await history()
    const write = fencedResource(recorder)
    expect([write('n', 2n), write('n', 1n), write('n', 2n)]).toEqual([true, false, true])
    expect(types()).toEqual(['resource-accepted', 'resource-rejected', 'resource-accepted'])
  })
})

async function history(): Promise<{ readonly recorder: Recorder; readonly types: () => readonly string[] }> {
  const file = join(await directory(), 'history.jsonl')
  const recorder = createRecorder(file, 'w1.1')
  onTestFinished(() => recorder.close())
  return { recorder, types: () => readHistory([file]).map(({ type }) => type) }
}

/** What a task complains about, when a method of its lock or of its lease fails with this error. */
async function complaints(method: string, error: Error): Promise<readonly string[]> {
  const locks = createLocks(memory(), { ttlMs: 1_000 })
  onTestFinished(() => locks.close())
  const broken = <T extends object>(whole: T, own: Readonly<Record<string, unknown>>): T =>
    new Proxy(whole, { get: (target, key) => own[String(key)] ?? Reflect.get(target, key) })
  const fail = (): Promise<never> => Promise.reject(error)
  const raise = (): never => {
    throw error
  }
  const acquire = async (): Promise<Lease> => {
    const lease = await locks.lock('n').acquire()
    const bound = { release: () => lease.release(), assertHeld: () => lease.assertHeld() }
    if (method === 'assertHeld') return broken(lease, { ...bound, assertHeld: raise })
    return method === 'release' ? broken(lease, { ...bound, release: fail }) : lease
  }
  const own = method === 'acquire' ? { acquire: fail, tryAcquire: fail } : { acquire, tryAcquire: acquire }
  const wrong: string[] = []
  const task: Task = {
    locks: broken(locks, { lock: () => own }),
    recorder: (await history()).recorder,
    order: {
      config: 'memory:',
      process: 'w1.1',
      file: '',
      names: ['n'],
      prefix: '',
      tasks: 1,
      seed: 1,
      ttlMs: 50,
      storeTimeoutMs: 1_000,
    },
    task: 't1',
    random: seeded(1),
    stop: new AbortController().signal,
    granted: () => undefined,
    write: async () => true,
    tell: (message) => void (message.type === 'wrong' && wrong.push(message.what)),
  }
  await tryWith(task, 'n')
  return wrong
}

describe('worker', () => {
  test.each([
    ['acquire', 'acquire of n rejected with'],
    ['assertHeld', 'assertHeld of n threw'],
    ['release', 'release of n rejected with'],
  ])('is reported for an undocumented error of %s, and for no documented one', async (method, what) => {
    const [first, ...more] = await complaints(method, new TypeError('oops'))
    expect(first).toBe(`w1.1/t1: ${what} TypeError: oops`)
    expect(new Set(more)).toEqual(new Set(method === 'assertHeld' ? [first] : []))
    const closed = new LockError('LOCK_CLOSED', 'closed')
    expect((await complaints(method, closed))[0]).toBe(`w1.1/t1: ${what} LOCK_CLOSED LockError: closed`)
    expect(await complaints(method, new LockError('LOCK_LOST', 'lost'))).toEqual([])
    expect(checkEnd([String(first)], [])).toMatchObject([{ check: 'worker', message: first }])
  })

  test('is reported for a process that does not stop, and for one that ends by itself', async () => {
    const { url } = await store()
    const folder = await directory()
    const [started, wrong]: [Worker[], string[]] = [[], []]
    onTestFinished(() => Promise.all(started.map((worker) => worker.kill())).then(() => undefined))
    const start = async (process: string): Promise<Worker> => {
      const order = { process, file: join(folder, process), names: ['n'] as const, prefix: 'own' }
      const rest = { config: url, tasks: 1, seed: 1, ttlMs: 1_000, storeTimeoutMs: 3_000 }
      const quiet = { granted: () => undefined, write: () => true, warning: () => undefined }
      const worker = await startWorker({ ...order, ...rest }, { ...quiet, wrong: (what) => wrong.push(what) })
      started.push(worker)
      return worker
    }
    await (await start('obedient')).stop(scaled(30_000))
    expect(wrong).toEqual([])
    const stuck = await start('stuck')
    stuck.block(60_000, 'once')
    await stuck.stop(300)
    expect(wrong).toEqual([
      expect.stringMatching(/^worker stuck did not stop within 300 ms: waited for \d+ ms/),
    ])
    const gone = await start('gone')
    gone.signal('SIGKILL')
    await eventually('its end', scaled(5_000), () => Promise.resolve(gone.gone))
    expect(wrong[1]).toMatch(/^worker gone ended by itself: SIGKILL/)
  })
})

test('patience ends after its bound, but not while a watched process is kept from running', async () => {
  expect(await patiently(0, () => false)).toMatch(/^\d+ ms, in \d+ of which the workers waited for a CPU$/)
  const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 10)'], { stdio: 'ignore' })
  const end = watchWorkers(() => [child.pid ?? 0])
  onTestFinished(() => {
    end()
    child.kill('SIGKILL')
  })
  let isDone = false
  child.kill('SIGSTOP')
  setTimeout(() => (isDone = true), 2_000)
  expect(await patiently(1_000, () => isDone)).toBeUndefined()
  // Stopped forever: five times the bound.
  expect(await patiently(200, () => false)).toMatch(/^\d{4,} ms, in \d{3,}/)
})

test('progress is reported for each task without a grant after the last fault, in workers that live', () => {
  const found = checkProgress(['w1.2', 'w2.1'], new Set(['w1.2/t1', 'w2.1/t2', 'w1.1/t2']), 2)
  expect(found).toMatchObject([
    { check: 'progress', message: 'w1.2/t2 got no lock after the last fault' },
    { check: 'progress', message: 'w2.1/t1 got no lock after the last fault' },
  ])
})

describe('too little happened', () => {
  const options = {
    forMs: 60_000,
    processes: 2,
    tasks: 2,
    names: 1,
    seed: 1,
    ttlMs: 1_000,
    config: 'memory:',
  }
  const found = (
    grants: number,
    busy: number,
    happened: Readonly<Record<string, number>>,
    faults: readonly FaultKind[] = ['kill', 'cut'],
  ): readonly string[] =>
    checkSubstance({ ...judge([], bounds), grants, busy }, happened, faults, { ...options, faults }).map(
      ({ check, message }) => `${check}: ${message}`,
    )

  test('is reported for few grants, no contention, no fault, and a kind of fault that never happened', () => {
    const least = leastGrants(options)
    expect(least).toBe(8)
    expect(found(least, 1, { kill: 1, cut: 1 })).toEqual([])
    expect(found(least - 1, 1, { kill: 1 })).toEqual([
      'too little happened: only 7 grants; fewer than 8 show nothing',
    ])
    expect(found(least, 0, { kill: 1 })).toEqual(['too little happened: no acquire met another holder'])
    expect(found(least, 1, {})).toEqual(['too little happened: no fault happened; run for longer'])
    expect(found(least, 1, {}, [])).toEqual([])
    expect(found(least, 1, { kill: 29 })).toEqual([])
    expect(found(least, 1, { kill: 30 })).toEqual(['too little happened: these faults never happened: cut'])
  })
})
