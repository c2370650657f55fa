import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { createLocks, LockError } from '../../src/index.ts'
import type { AdapterFactory, LockEventName } from '../../src/index.ts'
import { harness, lockErrorOf } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'
import { fail } from '../support/steps.ts'

const events = ['acquire', 'release', 'lost', 'jeopardy', 'contended'] as const

/** `value` as JSON, parsed again. */
function logged(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

describe('JSON.stringify', () => {
  test('of a lease has name, owner, state, fence and remaining time, also after its end', async () => {
    const { locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000, owner: 'me' })
    const about = { name: 'a', owner: 'me', fence: '1' }
    expect(logged({ lease })).toEqual({ lease: { ...about, state: 'held', remainingMs: 988 } })
    await lease.release()
    expect(logged(lease)).toEqual({ ...about, state: 'released', remainingMs: 0 })
  })

  test('of what inspect returns has fences as decimal strings, above 2^53 too', async () => {
    const high = 2n ** 62n + 1n
    const held = { held: true, holder: { owner: 'stranger', fence: high } }
    const factory: AdapterFactory = (host) => ({
      ...new ScriptedStore().factory(host),
      inspect: async (name) => ({ name, ...held }),
    })
    const locks = createLocks(factory)
    const state = await locks.inspect('a')
    const holder = { owner: 'stranger', fence: '4611686018427387905' }
    expect(logged(state)).toMatchObject({ name: 'a', held: true, holder })
    expect(logged({ ...state })).toMatchObject({ holder })
    expect(Object.keys(state.holder ?? {})).not.toContain('toJSON')
    expect(structuredClone(state).holder?.fence).toBe(high)
  })

  test('of every event works, and shows of an error no more than name, message and code', async () => {
    const { clock, store, locks } = harness()
    const seen = new Map<LockEventName, unknown>()
    for (const event of events) locks.on(event, (payload) => seen.set(event, payload))
    store.always('renew', fail(Object.assign(new Error('down'), { code: 'ECONNRESET', password: 'hunter2' })))
    const lease = await locks.lock('a').acquire({ ttlMs: 900, owner: 'me' })
    await lockErrorOf(locks.lock('a').acquire({ waitMs: 0 }))
    await clock.advance(900)
    expect(lease.state).toBe('lost')
    await (await locks.lock('b').acquire()).release()
    expect([...seen.keys()].toSorted()).toEqual([...events].toSorted())
    for (const payload of seen.values()) expect(JSON.stringify(payload)).not.toContain('hunter2')
    expect(logged(seen.get('lost'))).toMatchObject({ fence: '1', error: { code: 'LOCK_LOST' } })
    const cause = { name: 'Error', message: 'down', code: 'ECONNRESET' }
    expect(logged(seen.get('jeopardy'))).toMatchObject({ lock: 'a', fence: '1', cause })
    expect(logged(seen.get('contended'))).toMatchObject({ holder: { owner: 'me', fence: '1' } })
  })

  test('of an acquire that was aborted or timed out has the reason', async () => {
    const { locks } = harness()
    const controller = new AbortController()
    controller.abort()
    const overdue = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    for (const [signal, name, message] of [
      [controller.signal, 'AbortError', 'This operation was aborted'],
      [AbortSignal.abort(overdue), 'TimeoutError', overdue.message],
    ] as const) {
      const ends: unknown[] = []
      const off = locks.on('acquire', (end) => ends.push(end))
      await expect(locks.lock('a').acquire({ signal })).rejects.toThrow()
      off()
      expect(logged(ends)).toMatchObject([{ error: { name, message } }])
    }
  })

  test('of an error has its message, holder and cause, with any kind of cause', () => {
    const details = { lock: 'a', holder: { owner: 'me', fence: 7n } }
    const cause = Object.assign(new TypeError('why'), { config: { password: 'hunter2' } })
    expect(logged(new LockError('LOCK_TIMEOUT', 'held', { ...details, cause }))).toEqual({
      name: 'LockError',
      code: 'LOCK_TIMEOUT',
      message: 'held',
      lock: 'a',
      holder: { owner: 'me', fence: '7' },
      cause: { name: 'TypeError', message: 'why' },
    })
    const loop: { itself?: unknown } = {}
    loop.itself = loop
    for (const odd of [loop, 5n, null, Symbol('x'), () => 1])
      expect(logged(new LockError('LOCK_LOST', 'gone', { cause: odd }))).not.toHaveProperty('cause')
    expect(logged(new LockError('LOCK_LOST', 'gone', { cause: 'text' }))).toMatchObject({
      cause: { message: 'text' },
    })
  })
})

describe('util.inspect', () => {
  test('of a lease shows name, state, fence and remaining time', async () => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000, owner: 'me', renew: false })
    expect(inspect(lease)).toMatch(/^Lease \{\s+name: 'a',\s+owner: 'me',\s+state: 'held',/)
    expect(inspect(lease)).toMatch(/fence: 1n,\s+remainingMs: 988\s+\}$/)
    expect(inspect({ deep: { lease } }, { depth: 1 })).toContain('[Lease]')
    clock.block(1_000)
    expect(inspect(lease)).toContain("state: 'lost'")
  })
})
