import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { loadAdapter } from '../../config/open.ts'
import type { UncheckedConfig } from '../../config/types.ts'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Rule } from '../rule.ts'
import {
  acquireWhenReachable,
  assertHolder,
  seenWaiting,
  eventOf,
  inTime,
  lossOf,
  pass,
  soonFree,
  wired,
} from './observe.ts'

const outages = ['refuse', 'blackhole'] as const

/** A config that its adapter should reject, with the secrets of the original. */
function spoilt(config: UncheckedConfig): UncheckedConfig {
  if (typeof config !== 'string') return { ...config, 'no such key': true }
  return `${config}${config.includes('?') ? '&' : '?'}no-such-key=1`
}

/** Outages of a real connection, and what errors and objects reveal about its config. */
export const wireErrors: readonly Rule[] = [
  {
    id: 'ERR-3',
    title: 'a store that cannot be reached is LOCK_UNAVAILABLE within the bound, never reported as held',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      for (const outage of outages) {
        const { locks, proxy } = await wired(h, { storeTimeoutMs: h.ms(1_500) })
        const lock = h.name()
        const holder = h.adapter()
        const grant = await holder.take(holder.request(lock))
        proxy[outage]()
        const outcomes = [
          locks.lock(lock).tryAcquire(),
          locks.lock(h.name()).acquire({ waitMs: h.ms(60_000) }),
          locks.inspect(lock),
        ].map((outcome) => h.rejects(outcome, 'LOCK_UNAVAILABLE'))
        await inTime(`an answer to every call (${outage})`, h.ms(6_000), Promise.all(outcomes))
        await holder.adapter.release(grant)
      }
    },
  },
  {
    id: 'ERR-5',
    title: 'no error, event or object shows the secret of the config',
    kind: 'required',
    needs: ['secret'],
    async run(h) {
      const { secret, wire, config } = h.subject
      assert.ok(secret !== undefined)
      const options = { ttlMs: h.ttlMs, storeTimeoutMs: h.ms(1_500) }
      const behindProxy = wire && (await wired(h, options))
      const { locks, faults } = behindProxy ?? (await h.client(options))
      const seen: unknown[] = [locks]
      for (const event of ['acquire', 'release', 'lost', 'jeopardy', 'contended'] as const)
        locks.on(event, (payload) => seen.push(payload))
      const lock = locks.lock(h.name())
      const lease = await lock.acquire()
      seen.push(lock, lease, lease.signal, await lock.inspect())
      seen.push(await lock.acquire({ waitMs: 0 }).catch((error: unknown) => error))
      const broken = await loadAdapter(spoilt(config)).catch((error: unknown) => error)
      assert.ok(isLockError(broken, 'LOCK_INVALID_ARGUMENT'), 'an unknown key in the config was accepted')
      seen.push(broken)
      faults.inject('renew', 'fail')
      behindProxy?.proxy.refuse()
      const failing = [lease.extend(), locks.inspect(h.name()), locks.lock(h.name()).tryAcquire()]
      seen.push(...(await Promise.allSettled(failing)))
      await inTime('the loss', h.ttlMs * 3 + h.ms(3_000), lossOf(lease))
      for (const thing of seen) {
        const inspected = inspect(thing, { depth: 10, showHidden: true, maxArrayLength: null })
        const text = `${inspected} ${String(thing)} ${JSON.stringify(thing)}`
        for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString('base64')])
          assert.ok(!text.includes(form), `the secret shows in ${inspect(thing, { depth: 0 }).slice(0, 60)}`)
      }
    },
  },
  {
    id: 'ERR-9',
    title: 'after an outage the same client works again',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      for (const outage of outages) {
        const client = await wired(h, { storeTimeoutMs: h.ms(1_500) })
        const lock = h.name()
        client.proxy[outage]()
        await h.rejects(client.locks.lock(lock).tryAcquire(), 'LOCK_UNAVAILABLE')
        client.proxy.pass()
        const lease = await acquireWhenReachable(h, client, lock)
        await assertHolder(h, lease)
        await lease.release()
        await soonFree(h, lock)
      }
    },
  },
  {
    id: 'ERR-11',
    title: 'a waiter survives a short outage, and gets the lock that was released meanwhile',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      for (const outage of outages) {
        const [waiter, holder] = [await wired(h), await h.client()]
        const lock = h.name()
        const lease = await holder.locks.lock(lock).acquire()
        const waits = eventOf(waiter, 'contended', lock)
        const turn = waiter.locks.lock(lock).acquire({ waitMs: h.ttlMs * 3 + h.ms(15_000) })
        await seenWaiting(turn, waits)
        waiter.proxy[outage]()
        await pass(h.ms(200))
        await lease.release()
        await pass(h.ms(200))
        waiter.proxy.pass()
        const next = await turn
        if (h.capabilities.fencing !== 'none') assert.ok(next.fence > lease.fence)
        await assertHolder(h, next)
        await next.release()
        await soonFree(h, lock)
      }
    },
  },
]
