import type { AcquireRequest, Grant } from '@locks/core/adapter'
import { ConnectionPool, sessionHolds } from '@locks/sql'
import { expect, test } from 'vitest'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { never } from '../../../conformance/test-support/bare-adapter.ts'
import { errors, PlainConnection, PlainStore } from './support/plain-store.ts'

function bed(max = 5) {
  const [store, clock] = [new PlainStore(), new HandClock()]
  const opened: PlainConnection[] = []
  const lost: string[] = []
  const open = async (): Promise<PlainConnection> => {
    const connection = new PlainConnection()
    opened.push(connection)
    return connection
  }
  const connections = new ConnectionPool<PlainConnection>({ open, max, clock, errors })
  const report = (_: string, attemptId?: string): void => void lost.push(attemptId ?? '')
  const host = { clientId: 'c', clock, report }
  const holds = sessionHolds({ driver: store, connections, errors, sessionTtlMs: 30_000 }, host)
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
  /** Lets pending promises settle. */
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  return { store, clock, opened, lost, connections, holds, request, take, settle }
}

test('a lock passes from its holder to the waiter, under a higher fence, and is free after both', async () => {
  const { store, holds, request, take } = bed()
  const held = await take(request())
  expect(await holds.attempt(request())).toMatchObject({ busy: true, holder: { owner: 'o', fence: 1n } })
  const waiter = request({ willWait: true })
  expect(await holds.attempt(waiter)).toMatchObject({ busy: true })
  const turn = holds.wait(waiter, 10_000, never)
  expect(await holds.release(held)).toBe('released')
  const next = await turn
  expect(next).toMatchObject({ attemptId: waiter.attemptId, fence: 2n })
  // A repeated attempt has the same hold; the first holder has nothing left to release.
  expect(await holds.attempt(waiter)).toMatchObject({ fence: 2n })
  expect(await holds.release(held)).toBe('not-held')
  if (next !== undefined) expect(await holds.release(next)).toBe('released')
  expect(store.held.size).toBe(0)
})

test('a withdrawal that meets its try waits for it, and frees what it got', async () => {
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
  store.held.get('a')?.connection.fail?.(new Error('no answer'))
  await Promise.all([attempted, done])
  expect(store.held.size).toBe(0)
})

test('a withdrawn wait is cancelled once, and its connection is not used again', async () => {
  const { store, holds, request, take, opened, connections } = bed()
  await take(request())
  const waiter = request({ willWait: true })
  await holds.attempt(waiter)
  await Promise.all([holds.withdraw(waiter), holds.withdraw(waiter)])
  expect(store.waiting).toEqual([])
  expect(opened.map(({ ended }) => ended)).toEqual([false, true])
  expect(connections.size).toBe(1)
})

test('a wait that cannot be cancelled loses its connection, and the grant with it', async () => {
  const { store, holds, request, take, opened, connections } = bed()
  const held = await take(request())
  const waiter = request({ willWait: true })
  await holds.attempt(waiter)
  store.failing.add('cancel')
  await expect(holds.withdraw(waiter)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(opened[1]?.ended).toBe(true)
  expect(connections.size).toBe(1)
  await holds.withdraw(waiter)
  await holds.release(held)
})

test('a try that the server does not answer is given up, and keeps no connection', async () => {
  const { store, holds, request, clock, connections, settle } = bed(1)
  store.silent.add('tryLock')
  const attempted = holds.attempt(request())
  await settle()
  for (let seconds = 0; seconds < 6; seconds += 1) clock.move(1_000)
  await expect(attempted).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(connections.size).toBe(0)
})

test('an answer that arrived while the process was paused counts; a missing one does not', async () => {
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

test('a row that cannot be made keeps no connection', async () => {
  const { store, holds, request, connections, opened } = bed()
  store.make = async () => undefined
  await expect(holds.attempt(request())).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(connections.size).toBe(0)
  expect(opened.at(-1)?.ended).toBe(true)
})

test('a name that is locked without a holder is tried for a while, and is never busy', async () => {
  for (const freeAfterMs of [1_500, Infinity]) {
    const { store, holds, request, clock, connections, settle } = bed()
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
    expect(connections.size).toBe(1)
  }
})

test('a hold ends with its connection, and is reported as lost once', async () => {
  const { store, holds, request, take, opened, lost } = bed()
  const wanted = request()
  const grant = await take(wanted)
  opened.forEach((connection) => connection.breakDown())
  opened.forEach((connection) => store.forget(connection))
  expect(lost).toEqual([wanted.attemptId])
  expect(await holds.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])).toEqual(['lost'])
  expect(await holds.release(grant)).toBe('not-held')
})

test('a release says whether the server still had the hold, and rejects when that is unknown', async () => {
  const { store, holds, request, take, connections } = bed()
  const grants = await Promise.all(['a', 'b', 'c'].map((name) => take(request({ name }))))
  const [a, b, c] = grants
  if (a === undefined || b === undefined || c === undefined) throw new Error('three were taken')
  store.held.delete('a')
  expect(await holds.release(a)).toBe('not-held')
  store.free = () => Promise.reject(new Error('ended'))
  expect(await holds.release(b)).toBe('not-held')
  store.free = () => Promise.reject(new Error('reset'))
  await expect(holds.release(c)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  // The failed connection is closed, which soon ends its hold.
  expect(connections.size).toBe(1)
  store.held.delete('c')
  expect(await holds.release(c)).toBe('not-held')
})

test('a release reads what arrived on its connection before it sends anything', async () => {
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
  // The store cannot be asked either; that the connection ended first is enough.
  opened.forEach((connection) => connection.breakDown())
  store.holderOf = () => Promise.reject(new Error('no connection'))
  poll()
  expect(await released).toBe('not-held')
  expect(freed).toEqual([])
  expect(lost).toEqual([grant.attemptId])
})

test('a probe that hangs is unknown and does not delay others; one that fails is a loss', async () => {
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
  const connections = [...store.held.values()].map(({ connection }) => connection)
  await settle()
  clock.move(8_000)
  expect(await renewed).toEqual(['unknown', 'unknown'])
  await holds.release(b)
  expect(lost).toEqual([])
  for (const connection of connections) connection.fail?.(new Error('no answer'))
  await settle()
  expect(lost).toEqual([a.attemptId])
})

test('a renewal never shortens a hold', async () => {
  const { store, holds, request, take, clock } = bed()
  const grant = await take(request())
  clock.move(10_000)
  await holds.renew([{ grant, ttlMs: 5_000, lockDelayMs: 0 }])
  await holds.renew([{ grant, ttlMs: 25_000, lockDelayMs: 0 }])
  expect(store.silences.slice(-2)).toEqual([20_000, 25_000])
})
