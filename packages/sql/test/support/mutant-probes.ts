import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { expect, onTestFinished } from 'vitest'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'
import { hammerPrune } from '../../../../conformance/test-support/prune-hammer.ts'
import type { LaggingProxy } from './lagging-proxy.ts'
import type { SqlAdapter } from './mutant.ts'

type Config = Readonly<Record<string, unknown>>

/** Where an adapter under test works. */
export interface Bed {
  readonly adapter: SqlAdapter
  readonly config: Config & { readonly url: string }
  readonly lagging: () => Promise<LaggingProxy>
  /** Locks the row of a name in a transaction of another session. Returns what ends that transaction. */
  readonly lockRow: (name: string) => Promise<() => void>
}

/** A test that fails when the adapter has the bug. */
export type Probe = (bed: Bed) => Promise<void>

const unknown = { code: 'LOCK_UNAVAILABLE' }

export const freed: Probe = async ({ adapter: { fromConfig }, config }) => {
  const client = bareAdapter(fromConfig(config))
  const grant = await client.take(client.request('freed'))
  expect(await client.adapter.release(grant)).toBe('released')
  expect(await client.adapter.release(grant)).toBe('not-held')
}

export const shifted: Probe = async ({ adapter: { fromConfig }, config, lagging }) => {
  const { url, lag } = await lagging()
  const holder = bareAdapter(fromConfig(config))
  const client = bareAdapter(fromConfig({ ...config, url, poolSize: 1 }))
  await holder.take(holder.request('shifted'))
  await client.take(client.request('free'))
  lag()
  await expect(client.adapter.attempt(client.request('shifted'))).rejects.toMatchObject(unknown)
}

/** `emptyReply` is the server's reply to a statement that found nothing. */
export const inserted =
  (emptyReply: Buffer, act: 'inspect' | 'release'): Probe =>
  async ({ adapter: { fromConfig }, config, lagging }) => {
    const { url, insert } = await lagging()
    const { adapter, take, request } = bareAdapter(fromConfig({ ...config, url, poolSize: 1 }))
    await adapter.release(await take(request('before')))
    const grant = await take(request('inserted'))
    insert(emptyReply)
    const outcome = act === 'inspect' ? adapter.inspect(grant.name) : adapter.release(grant)
    await expect(outcome).rejects.toMatchObject(unknown)
  }

export const renewed: Probe = async ({ adapter: { fromConfig }, config, lockRow }) => {
  const { adapter, take, request } = bareAdapter(fromConfig(config))
  const renewals = []
  for (const name of ['stuck', 'other'])
    renewals.push({ grant: await take(request(name)), ttlMs: 2_000, lockDelayMs: 0 })
  const timer = setTimeout(await lockRow('stuck'), 2_000)
  const outcomes = await adapter.renew(renewals)
  clearTimeout(timer)
  expect(outcomes).toEqual(['unknown', 'renewed'])
}

/** One name, pruned and acquired in turns. */
export const pruned =
  (strategy: string): Probe =>
  async ({ adapter: { fromConfig }, config }) => {
    const open = (): Locks => {
      const locks = createLocks(fromConfig({ ...config, strategy }))
      onTestFinished(() => locks.close())
      return locks
    }
    const held = await open().lock('held').acquire()
    await hammerPrune(open, 'pruned', { tries: 20, atLeast: 5 })
    await held.extend()
    expect(await open().lock('held').tryAcquire()).toBe(null)
  }
