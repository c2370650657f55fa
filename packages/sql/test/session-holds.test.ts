import type { AcquireRequest, Grant } from '@locks/core/adapter'
import { Lines, sessionHolds } from '@locks/sql'
import { expect, test } from 'vitest'
import { HandClock } from '../../../conformance/test-kit/hand-clock.ts'
import { never } from '../../../conformance/test-kit/bare-adapter.ts'
import { faults, PlainLine, PlainStore } from './plain-store.ts'

function bed(max = 5) {
  const [store, clock] = [new PlainStore(), new HandClock()]
  const opened: PlainLine[] = []
  const lost: string[] = []
  const open = async (): Promise<PlainLine> => {
    const line = new PlainLine()
    opened.push(line)
    return line
  }
  const lines = new Lines<PlainLine>({ open, max, clock, faults })
  const report = (_: string, attemptId?: string): void => void lost.push(attemptId ?? '')
  const host = { clientId: 'c', clock, report }
  const holds = sessionHolds(
    { driver: store, lines, faults, sessionTtlMs: 30_000, released: () => undefined },
    host,
  )
  let attempts = 0
  const request = (options: Partial<AcquireRequest> = {}): AcquireRequest => {
    const metadata = { host: 'h', pid: 1 }
    const usual = { owner: 'o', mode: 'exclusive', ttlMs: 30_000, lockDelayMs: 0 } as const
    return { name: 'a', attemptId: `c:${++attempts}`, ...usual, willWait: false, metadata, ...options }
  }
  const take = async (wanted: AcquireRequest): Promise<Grant> => {
    const answer = await holds.attempt(wanted)
    if ('fence' in answer) return answer
    throw new Error('busy')
  }
  /** Lets what is under way come to rest. */
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  return { store, clock, opened, lost, lines, holds, request, take, settle }
}

test('a lock goes from its holder to who waits, under a higher fence, and back to nobody', async () => {
  const { store, holds, request, take } = bed()
  const held = await take(request())
  expect(await holds.attempt(request())).toMatchObject({ busy: true, holder: { owner: 'o', fence: 1n } })
  const waiter = request({ willWait: true })
  expect(await holds.attempt(waiter)).toMatchObject({ busy: true })
  const turn = holds.wait(waiter, 10_000, never)
  expect(await holds.release(held)).toBe('released')
  const next = await turn
  expect(next).toMatchObject({ attemptId: waiter.attemptId, fence: 2n })
  // Asked again, it is the same hold; the first one has nothing left to free.
  expect(await holds.attempt(waiter)).toMatchObject({ fence: 2n })
  expect(await holds.release(held)).toBe('not-held')
  if (next !== undefined) expect(await holds.release(next)).toBe('released')
  expect(store.held.size).toBe(0)
})

test('a withdrawal waits for the try that is under way, and frees what that got', async () => {
  const { store, holds, request, settle } = bed()
  store.made.add('a')
  store.silent.add('mint')
  const wanted = request()
  const attempted = holds.attempt(wanted).catch(() => 'failed')
  await settle()
  expect(store.held.get('a')?.request).toBe(wanted)
  let withdrawn = false
  const done = holds.withdraw(wanted).then(() => (withdrawn = true))
  await settle()
  expect(withdrawn).toBe(false)
  store.held.get('a')?.line.fail?.(new Error('no answer'))
  await Promise.all([attempted, done])
  expect(store.held.size).toBe(0)
})

test('a withdrawn wait is cancelled, once for all who ask, and its connection is not used again', async () => {
  const { store, holds, request, take, opened, lines } = bed()
  await take(request())
  const waiter = request({ willWait: true })
  await holds.attempt(waiter)
  await Promise.all([holds.withdraw(waiter), holds.withdraw(waiter)])
  expect(store.waiting).toEqual([])
  expect(opened.map(({ ended }) => ended)).toEqual([false, true])
  expect(lines.size).toBe(1)
})

test('a wait that cannot be cancelled loses its connection, and the grant with it', async () => {
  const { store, holds, request, take, opened, lines } = bed()
  const held = await take(request())
  const waiter = request({ willWait: true })
  await holds.attempt(waiter)
  store.failing.add('cancel')
  await expect(holds.withdraw(waiter)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(opened[1]?.ended).toBe(true)
  expect(lines.size).toBe(1)
  await holds.withdraw(waiter)
  await holds.release(held)
})

test('a try that the server does not answer is given up, and keeps no connection', async () => {
  const { store, holds, request, clock, lines, settle } = bed(1)
  store.silent.add('tryLock')
  const attempted = holds.attempt(request())
  await settle()
  for (let seconds = 0; seconds < 6; seconds += 1) clock.move(1_000)
  await expect(attempted).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(lines.size).toBe(0)
})

test('an answer that came while the process was paused counts; one that still does not come does not', async () => {
  for (const answered of [true, false]) {
    const { store, holds, request, clock, settle, opened } = bed()
    store.made.add('a')
    store.silent.add('tryLock')
    const attempted = holds.attempt(request()).catch(() => 'given up')
    await settle()
    // Timers run before sockets are read.
    clock.move(7_000)
    if (answered) opened[0]?.answer?.()
    else clock.move(1_000)
    expect(await attempted).toEqual(answered ? expect.objectContaining({ fence: 1n }) : 'given up')
  }
})

test('a name that cannot be made keeps no connection', async () => {
  const { store, holds, request, lines, opened } = bed()
  store.make = async () => undefined
  await expect(holds.attempt(request())).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(lines.size).toBe(0)
  expect(opened.at(-1)?.ended).toBe(true)
})

test('a name that is locked by nobody who holds it is waited for a little, and never said to be busy', async () => {
  for (const freeAfterMs of [1_500, Infinity]) {
    const { store, holds, request, clock, lines, settle } = bed()
    store.made.add('a')
    const tryLock = store.tryLock.bind(store)
    const freeAt = clock.now() + freeAfterMs
    store.tryLock = async (...call) => (clock.now() < freeAt ? { holder: undefined } : tryLock(...call))
    const attempted = holds.attempt(request()).catch((error: unknown) => error)
    for (let waitedMs = 0; waitedMs < 3_000; waitedMs += 5) {
      await settle()
      clock.move(5)
    }
    if (freeAfterMs < 3_000) expect(await attempted).toMatchObject({ fence: 1n })
    else expect(await attempted).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    expect(lines.size).toBe(1)
  }
})

test('a hold is over when its connection is, and said to be lost once', async () => {
  const { store, holds, request, take, opened, lost } = bed()
  const wanted = request()
  const grant = await take(wanted)
  opened.forEach((line) => line.breakDown())
  opened.forEach((line) => store.forget(line))
  expect(lost).toEqual([wanted.attemptId])
  expect(await holds.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])).toEqual(['lost'])
  expect(await holds.release(grant)).toBe('not-held')
})

test('a release tells whether the server still had the hold, and fails when that is not known', async () => {
  const { store, holds, request, take, lines } = bed()
  const grants = await Promise.all(['a', 'b', 'c'].map((name) => take(request({ name }))))
  const [a, b, c] = grants
  if (a === undefined || b === undefined || c === undefined) throw new Error('three were taken')
  store.held.delete('a')
  expect(await holds.release(a)).toBe('not-held')
  store.free = () => Promise.reject(new Error('ended'))
  expect(await holds.release(b)).toBe('not-held')
  store.free = () => Promise.reject(new Error('reset'))
  await expect(holds.release(c)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  // The connection that failed is gone, and with it, soon, the hold.
  expect(lines.size).toBe(1)
  store.held.delete('c')
  expect(await holds.release(c)).toBe('not-held')
})

test('what arrived on the connection is read before a release is sent on it', async () => {
  let poll = (): void => undefined
  const { store, holds, request, take, opened, lost, settle, clock } = bed()
  clock.afterPoll = (done) => void (poll = done)
  const grant = await take(request())
  const freed: unknown[] = []
  const free = store.free.bind(store)
  store.free = (...call) => {
    freed.push(call)
    return free(...call)
  }
  const released = holds.release(grant)
  await settle()
  expect(freed).toEqual([])
  // The store cannot be asked either: that the connection ended before the release is enough.
  opened.forEach((line) => line.breakDown())
  store.holderOf = () => Promise.reject(new Error('no connection'))
  poll()
  expect(await released).toBe('not-held')
  expect(freed).toEqual([])
  expect(lost).toEqual([grant.attemptId])
})

test('one probe that hangs leaves its outcome unknown and the others theirs; one that fails is a loss', async () => {
  const { store, holds, request, take, clock, settle } = bed()
  const [a, b] = [await take(request()), await take(request({ name: 'b' }))]
  const renewals = [a, b].map((grant) => ({ grant, ttlMs: 30_000, lockDelayMs: 0 }))
  store.silent.add('probe')
  const renewed = holds.renew(renewals)
  await settle()
  clock.move(8_000)
  expect(await renewed).toEqual(['unknown', 'unknown'])
  store.silent.clear()
  store.failing.add('probe')
  expect(await holds.renew(renewals.slice(0, 1))).toEqual(['lost'])
  store.failing.clear()
  expect(await holds.renew(renewals)).toEqual(['lost', 'renewed'])
})

test('a probe that fails after its renewal was answered is reported as a loss, unless it was released', async () => {
  const { store, holds, request, take, clock, settle, lost } = bed()
  const [a, b] = [await take(request()), await take(request({ name: 'b' }))]
  store.silent.add('probe')
  const renewed = holds.renew([a, b].map((grant) => ({ grant, ttlMs: 30_000, lockDelayMs: 0 })))
  const lines = [...store.held.values()].map(({ line }) => line)
  await settle()
  clock.move(8_000)
  expect(await renewed).toEqual(['unknown', 'unknown'])
  await holds.release(b)
  expect(lost).toEqual([])
  for (const line of lines) line.fail?.(new Error('no answer'))
  await settle()
  expect(lost).toEqual([a.attemptId])
})

test('a renewal never brings the end of a hold forward', async () => {
  const { store, holds, request, take, clock } = bed()
  const grant = await take(request())
  clock.move(10_000)
  await holds.renew([{ grant, ttlMs: 5_000, lockDelayMs: 0 }])
  await holds.renew([{ grant, ttlMs: 25_000, lockDelayMs: 0 }])
  expect(store.silences.slice(-2)).toEqual([20_000, 25_000])
})
