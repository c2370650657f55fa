import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type { Lease } from '../../src/index.ts'
import { codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'
import { settled } from '../support/virtual-clock.ts'

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc()')
}

describe('the scope of a with callback', () => {
  test('re-enters at any depth, across awaits, with one fence and one release', async () => {
    const { store, locks } = harness()
    const fences = await locks.with('a', async (outer) => {
      await settled()
      return locks.with('a', async (middle) => {
        await using inner = await locks.lock('a').acquire()
        const tried = await locks.lock('a').tryAcquire()
        await tried?.release()
        return [outer.fence, middle.fence, inner.fence, tried?.fence]
      })
    })
    expect(new Set(fences).size).toBe(1)
    expect([store.calls.attempt, store.calls.release]).toEqual([1, 1])
  })

  test('re-enters a hold further out, past one of another name', async () => {
    const { store, locks } = harness()
    await locks.with('a', () => locks.with('b', () => locks.with('a', () => undefined)))
    expect(store.calls.attempt).toBe(2)
  })

  test('is not shared by branches that run side by side', async () => {
    const { clock, locks } = harness()
    let inside = 0
    let most = 0
    const branch = (): Promise<void> =>
      locks.with('b', async () => {
        most = Math.max(most, (inside += 1))
        await settled()
        inside -= 1
      })
    await locks.with('a', () => Promise.all([branch(), branch(), branch()]))
    await clock.advance(0)
    expect(most).toBe(1)
  })

  test('does not include a lease that was merely acquired', async () => {
    const { locks } = harness()
    await using lease = await locks.lock('a').acquire()
    expect(lease.state).toBe('held')
    expect(await locks.lock('a').tryAcquire()).toBeNull()
  })

  test('does not reach code that was there before it', async () => {
    const { locks } = harness()
    let ask: () => void = () => undefined
    const outside = new Promise<void>((resolve) => {
      ask = resolve
    }).then(() => locks.lock('a').tryAcquire())
    await locks.with('a', async () => {
      ask()
      expect(await outside).toBeNull()
    })
  })

  test('belongs to one client: another over the same store is excluded', async () => {
    const { clock, store, locks } = harness()
    const other = createLocks(store.factory, { clock })
    await locks.with('a', async () => {
      expect(await other.lock('a').tryAcquire()).toBeNull()
    })
  })

  test('ends with its callback: tasks that outlive it acquire like any other', async () => {
    const { store, locks } = harness()
    let go: () => void = () => undefined
    const left: Promise<Lease>[] = []
    const first = await locks.with('a', ({ fence }) => {
      const signal = new Promise<void>((resolve) => {
        go = resolve
      })
      left.push(signal.then(() => locks.lock('a').acquire()))
      return fence
    })
    go()
    const [lease] = await Promise.all(left)
    expect(lease?.fence).toBeGreaterThan(first)
    expect(store.calls.attempt).toBe(2)
  })

  test('a lost outer hold makes the inner acquire LOCK_LOST, not a wait for oneself', async () => {
    const { clock, store, locks } = harness()
    const outcome = locks.with('a', { ttlMs: 900, renew: false }, async () => {
      clock.block(900)
      return codeOf(await reasonOf(locks.lock('a').acquire()))
    })
    expect(codeOf(await reasonOf(outcome))).toBe('LOCK_LOST')
    expect(store.calls.attempt).toBe(1)
  })

  test('what a lost and finished callback left running can acquire again', async () => {
    const { clock, locks } = harness()
    let go: () => void = () => undefined
    const left: Promise<Lease>[] = []
    const outcome = locks.with('a', { ttlMs: 900, renew: false }, () => {
      const signal = new Promise<void>((resolve) => {
        go = resolve
      })
      left.push(signal.then(() => locks.lock('a').acquire()))
      clock.block(900)
    })
    expect(codeOf(await reasonOf(outcome))).toBe('LOCK_LOST')
    go()
    const again = watch(Promise.all(left))
    await clock.advance(1_000)
    expect(again.state).toBe('fulfilled')
  })

  test('an inner lease that outlives the callback keeps the hold until it is released', async () => {
    const { store, locks } = harness()
    const inner = await locks.with('a', () => locks.lock('a').acquire())
    expect(inner.state).toBe('held')
    expect(store.calls.release).toBe(0)
    await inner.release()
    expect(store.holder('a')).toBeUndefined()
  })

  test('an explicit owner goes before the scope', async () => {
    const { locks } = harness()
    await locks.with('a', { owner: 'me' }, async () => {
      expect(await locks.lock('a').tryAcquire({ owner: 'you' })).toBeNull()
      expect(await locks.lock('a').tryAcquire({ owner: 'me' })).not.toBeNull()
    })
  })

  test('does not leak to the listeners that a timer of the client calls', async () => {
    const locks = createLocks(new ScriptedStore().factory)
    const stranger = await locks.lock('theirs').acquire({ ttlMs: 120, renew: false })
    const seen = new Promise<unknown>((resolve) => {
      stranger.signal.addEventListener('abort', () => resolve(locks.lock('mine').tryAcquire()))
    })
    await locks.with('mine', async () => {
      await locks.lock('short').acquire({ ttlMs: 20, renew: false })
      expect(await seen, 'another client acquired a lock that is held here').toBeNull()
    })
    await locks.close()
  })

  test('keeps nothing alive of callbacks that are over, however many tasks started each other', async () => {
    const { locks } = harness()
    const signals: WeakRef<AbortSignal>[] = []
    let end: () => void = () => undefined
    const over = new Promise<void>((resolve) => (end = resolve))
    const job = async (round: number): Promise<void> => {
      await settled()
      await locks.with(`round ${round}`, async ({ signal }) => {
        signals.push(new WeakRef(signal))
        if (round === 20) return over
        void job(round + 1)
        // Some have ended when the next one begins, some have not.
        for (let turns = 0; turns < round % 3; turns += 1) await settled()
      })
    }
    await job(1)
    while (signals.length < 20) await settled()
    const over15 = signals.slice(0, 15)
    // The engine may keep one for a moment in what it compiled.
    for (let turns = 0; turns < 20 && over15.some((signal) => signal.deref()); turns += 1) {
      await settled()
      collectGarbage()
    }
    expect(over15.map((signal) => signal.deref())).toEqual(Array(15).fill(undefined))
    end()
  })
})
