import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { Events } from '../../src/engine/context.ts'
import type { LockEventName, Locks } from '../../src/index.ts'
import { callUntyped, codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { fail, hang } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

const names = ['acquire', 'release', 'lost', 'jeopardy', 'contended'] as const

function record(locks: Locks): [LockEventName, unknown][] {
  const seen: [LockEventName, unknown][] = []
  for (const name of names) locks.on(name, (payload) => seen.push([name, payload]))
  return seen
}

/** Collects uncaught errors, which are expected here. */
function uncaught(): unknown[] {
  const errors: unknown[] = []
  const theirs = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => errors.push(error))
  onTestFinished(() => {
    process.removeAllListeners('uncaughtException')
    for (const listener of theirs) process.on('uncaughtException', listener)
  })
  return errors
}

describe('events', () => {
  test('tell of acquire, re-entry and release, in order, with times', async () => {
    const { clock, locks } = harness()
    const seen = record(locks)
    const me = { owner: 'me' }
    const outer = await locks.lock('a').acquire(me)
    const inner = await locks.lock('a').acquire(me)
    await clock.advance(100)
    await inner.release()
    await outer.release()
    const about = { lock: 'a', owner: 'me', fence: 1n }
    expect(seen).toEqual([
      ['acquire', { ...about, outcome: 'acquired', waitMs: 0, attempts: 1, reentered: false }],
      ['acquire', { ...about, outcome: 'acquired', waitMs: 0, attempts: 0, reentered: true }],
      ['release', { ...about, holdMs: 100 }],
    ])
  })

  test('tell how an acquire ended that got no lease, how long it waited and how often it asked', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 400, store: 'main', label: 'me' } })
    const ends: unknown[] = []
    locks.on('acquire', (end) => ends.push(end))
    const lock = locks.lock('a')
    const about = { lock: 'a', owner: 'o', label: 'me', store: 'main' }
    store.seize('a')
    const holder = { owner: 'stranger', fence: 1n }
    expect(await lock.tryAcquire({ owner: 'o' })).toBeNull()
    expect(ends.splice(0)).toEqual([{ ...about, outcome: 'busy', waitMs: 0, attempts: 1, holder }])

    clock.fixRandom(1)
    const retry = { delayMs: 100, maxDelayMs: 100 }
    const [waiting, behind] = [lock, lock].map((one) =>
      watch(one.acquire({ owner: 'o', waitMs: 250, retry })),
    )
    await clock.advance(250)
    expect([waiting, behind].map((one) => codeOf(one?.error))).toEqual(['LOCK_TIMEOUT', 'LOCK_TIMEOUT'])
    const timeout = { ...about, outcome: 'timeout', waitMs: 250, holder }
    const asked = store.calls.attempt - 1
    expect(asked).toBeGreaterThan(1)
    expect(ends.splice(0)).toEqual([
      { ...timeout, attempts: 0 },
      { ...timeout, attempts: asked },
    ])

    const controller = new AbortController()
    const aborted = watch(lock.acquire({ owner: 'o', signal: controller.signal }))
    await clock.advance(30)
    controller.abort('enough')
    await settled()
    expect(aborted.error).toBe('enough')
    expect(ends.splice(0)).toMatchObject([{ ...about, outcome: 'aborted', waitMs: 30, error: 'enough' }])

    store.free('a')
    store.always('attempt', hang)
    const failed = watch(lock.tryAcquire({ owner: 'o' }))
    await clock.advance(400)
    const { error } = failed
    expect(codeOf(error)).toBe('LOCK_UNAVAILABLE')
    expect(ends.splice(0)).toEqual([{ ...about, outcome: 'unavailable', waitMs: 400, attempts: 1, error }])

    const closing = locks.close()
    await clock.advance(400)
    await closing
    expect(codeOf(await reasonOf(lock.acquire({ owner: 'o' })))).toBe('LOCK_CLOSED')
    expect(ends.splice(0)).toMatchObject([{ ...about, outcome: 'aborted', attempts: 0 }])
  })

  test('tell of a resume that found its lease over, and of a callback that acquires after a loss', async () => {
    const { clock, locks } = harness()
    const ends: unknown[] = []
    locks.on('acquire', (end) => ends.push(end.outcome))
    const text = (await locks.lock('a').acquire({ ttlMs: 500 })).serialize()
    await clock.advance(1_000)
    expect(codeOf(await reasonOf(locks.resume(text)))).toBe('LOCK_LOST')
    const work = locks.with('b', { ttlMs: 500 }, async () => {
      clock.block(1_000)
      await locks.lock('b').acquire()
    })
    expect(codeOf(await reasonOf(work))).toBe('LOCK_LOST')
    expect(ends).toEqual(['acquired', 'lost', 'acquired', 'lost'])
  })

  test('are neither built nor emitted without listeners', async () => {
    const { locks, store } = harness()
    const emit = vi.spyOn(Events.prototype, 'emit')
    onTestFinished(() => emit.mockRestore())
    store.seize('a')
    expect(await locks.lock('a').tryAcquire()).toBeNull()
    await locks.with('b', () => undefined)
    expect(emit).not.toHaveBeenCalled()
  })

  test('of an unknown name, or for what is no function, are refused', async () => {
    const { locks } = harness()
    const nothing = (): void => undefined
    const bad = [['acquired', nothing], ['constructor', nothing], ['lost'], ['lost', {}]]
    for (const args of bad)
      expect(codeOf(await reasonOf(callUntyped(locks, 'on', ...args)))).toBe('LOCK_INVALID_ARGUMENT')
  })

  test('tell of contention once per acquire, and how long it waited', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const seen = record(locks)
    clock.fixRandom(0)
    const acquired = watch(locks.lock('a').acquire({ owner: 'me' }))
    await clock.advance(100)
    store.free('a')
    await clock.advance(10)
    expect(acquired.state).toBe('fulfilled')
    expect(seen.map(([name]) => name)).toEqual(['contended', 'acquire'])
    expect(seen[0]?.[1]).toEqual({ lock: 'a', owner: 'me', holder: { owner: 'stranger', fence: 1n } })
    expect(seen[1]?.[1]).toMatchObject({ fence: 2n, reentered: false })
  })

  test('tell of jeopardy with its cause, then of the loss with its error', async () => {
    const { clock, store, locks } = harness()
    const seen = record(locks)
    const cause = new Error('down')
    store.always('renew', fail(cause))
    const lease = await locks.lock('a').acquire({ ttlMs: 900, owner: 'me' })
    await clock.advance(900)
    const error: unknown = lease.signal.reason
    expect(seen.map(([name]) => name)).toEqual(['acquire', 'jeopardy', 'lost'])
    expect(seen[1]?.[1]).toEqual({ lock: 'a', owner: 'me', fence: 1n, remainingMs: 589, cause })
    expect(seen[2]?.[1]).toEqual({
      lock: 'a',
      owner: 'me',
      fence: 1n,
      holdMs: 889,
      error,
    })
  })

  test('tell of jeopardy before the loss, although a listener kept the event loop for too long', async () => {
    const { clock, store, locks } = harness()
    store.always('renew', hang)
    await locks.lock('a').acquire({ ttlMs: 900, owner: 'a' })
    await locks.lock('b').acquire({ ttlMs: 900, owner: 'b' })
    const seen: string[] = []
    locks.on('jeopardy', ({ lock }) => {
      seen.push(`${lock} in jeopardy`)
      clock.block(1_000)
    })
    locks.on('lost', ({ lock }) => seen.push(`${lock} lost`))
    await clock.advance(900)
    await clock.advance(1)
    expect(seen.toSorted()).toEqual(['a in jeopardy', 'a lost', 'b in jeopardy', 'b lost'])
    for (const lock of ['a', 'b'])
      expect(seen.indexOf(`${lock} in jeopardy`)).toBeLessThan(seen.indexOf(`${lock} lost`))
  })

  test('tell of a release that was not confirmed', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 100 } })
    const seen = record(locks)
    const lease = await locks.lock('a').acquire()
    store.always('release', fail())
    const released = watch(lease.release())
    await clock.advance(100)
    expect(seen.at(-1)).toEqual(['release', expect.objectContaining({ error: released.error })])
  })

  test('end when the function that on returned is called', async () => {
    const { locks } = harness()
    const listener = vi.fn<() => void>()
    const off = locks.on('acquire', listener)
    await locks.lock('a').acquire()
    off()
    off()
    await locks.lock('b').acquire()
    expect(listener).toHaveBeenCalledTimes(1)
  })

  test('go to diagnostics_channel as the same objects', async () => {
    const { locks } = harness()
    const seen = record(locks)
    const published: unknown[] = []
    const subscriber = (message: unknown): void => void published.push(message)
    for (const name of names) subscribe(`locks:${name}`, subscriber)
    onTestFinished(() => {
      for (const name of names) unsubscribe(`locks:${name}`, subscriber)
    })
    await locks.with('a', () => undefined)
    expect(published).toHaveLength(2)
    published.forEach((message, i) => expect(message).toBe(seen[i]?.[1]))
  })

  test('any number of listeners is fine: no warning of a leak', async () => {
    const { locks } = harness()
    const warned = vi.fn<() => void>()
    process.on('warning', warned)
    onTestFinished(() => void process.off('warning', warned))
    for (let i = 0; i < 20; i += 1) locks.on('lost', () => undefined)
    await settled()
    expect(warned).not.toHaveBeenCalled()
  })
})

describe('a listener that throws', () => {
  test.each(names)('for %s breaks no lock, and its error is not hidden', async (name) => {
    const { clock, store, locks } = harness()
    const errors = uncaught()
    locks.on(name, () => {
      throw new Error(`listener of ${name}`)
    })
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    const waiter = watch(locks.lock('a').acquire())
    await lease.release()
    await clock.advance(0)
    expect(waiter.value?.state).toBe('held')
    const doomed = await locks.lock('b').acquire({ ttlMs: 900 })
    store.always('renew', fail())
    await clock.advance(2_000)
    expect(doomed.signal.aborted).toBe(true)
    store.always('renew')
    expect((await locks.lock('b').tryAcquire())?.state).toBe('held')
    await settled()
    expect(errors.length).toBeGreaterThan(0)
  })

  test('does not keep the next listener from hearing', async () => {
    const { locks } = harness()
    const errors = uncaught()
    const second = vi.fn<() => void>()
    locks.on('acquire', () => {
      throw new Error('first')
    })
    locks.on('acquire', second)
    await locks.lock('a').acquire()
    await settled()
    expect(errors).toHaveLength(1)
    expect(second).toHaveBeenCalledTimes(1)
  })
})
