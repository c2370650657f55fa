import { isLockError } from '@locks/core'
import type { Locks } from '@locks/core'
import type { Grant } from '@locks/core/adapter'
import { eventually } from '@locks/core/conformance'
import type { TestAdapter } from '@locks/core/conformance'
import { describe, expect, test } from 'vitest'
import type { Server } from '../../../../conformance/services/index.ts'
import { scaled } from '../../../../conformance/services/timing.ts'
import type { LaggingProxy } from './lagging-proxy.ts'
import { startShiftingProxy } from './shifting-proxy.ts'

type Config = Readonly<Record<string, unknown>>

export interface ReplyBed {
  readonly server: Server
  readonly open: (config: Config) => Locks
  readonly bare: (config: Config) => TestAdapter
  readonly lagging: (server: Server) => Promise<LaggingProxy>
  /** The server's reply to a statement that found nothing. */
  readonly emptyReply: Buffer
}

const unknown = { code: 'LOCK_UNAVAILABLE' }

function runOf({ adapter, request }: TestAdapter, act: string): (grant: Grant) => Promise<unknown> {
  return async (grant) => {
    const { name, fence } = grant
    if (act === 'renew') return adapter.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])
    if (act === 'release') return adapter.release(grant)
    if (act === 'adopt') return adapter.adopt?.(grant, request(name))
    if (act === 'break') return adapter.break?.(name, { owner: 'unknown', fence })
    return act === 'list' ? adapter.list?.(10) : adapter.inspect(name)
  }
}

interface Client extends TestAdapter, Omit<LaggingProxy, 'url'> {}

/** Opens a client on so many connections, all through one proxy, by url or by a pool of the program. */
export type OpenThrough = (proxy: LaggingProxy, connections: number) => TestAdapter

/** Replies to statements of leases in a table, which any connection may run. */
export function replyTests(
  { server, bare, lagging, emptyReply }: ReplyBed,
  by: string,
  openThrough: OpenThrough,
  errorReply?: Buffer,
): void {
  async function client(connections = 1): Promise<Client> {
    const proxy = await lagging(server)
    return { ...openThrough(proxy, connections), ...proxy }
  }

  /** Replaces the reply to a statement, while others wait for its connection: what follows takes another one. */
  async function replaced({ adapter, insert, ended }: Client, reply: Buffer, run: () => Promise<unknown>) {
    insert(reply)
    const outcome = run()
    const others = [1, 2].map(() => adapter.inspect('nothing').catch(() => undefined))
    await expect(outcome).rejects.toMatchObject(unknown)
    await Promise.all(others)
    await eventually('its connection ends', 5_000, () => ended() > 0)
    expect(ended()).toBe(1)
  }

  describe(`by ${by}`, () => {
    test('the reply to one attempt is not taken for the reply to another', async () => {
      const { adapter, request, take, lag, ended } = await client()
      const holder = bare({ url: server.url })
      const name = `attempt by ${by}`
      await holder.take(holder.request(name))
      await take(request(`${name}, free`))
      lag()
      await expect(adapter.attempt(request(name))).rejects.toMatchObject(unknown)
      await eventually('its connection ends', 5_000, () => ended() > 0)
      expect(ended()).toBe(1)
      expect(await holder.adapter.inspect(name)).toMatchObject({ held: true })
    })

    test.each(['renew', 'release', 'adopt'])('nor the reply to one %s for another', async (act) => {
      const opened = await client()
      const { request, take, lag, ended } = opened
      const run = runOf(opened, act)
      const [first, second] = [
        await take(request(`${act} 1 by ${by}`)),
        await take(request(`${act} 2 by ${by}`)),
      ]
      await run(first)
      lag()
      await expect(run(second)).rejects.toMatchObject(unknown)
      await eventually('its connection ends', 5_000, () => ended() > 0)
      expect(ended()).toBe(1)
    })

    test.each(['renew', 'release', 'adopt', 'break', 'inspect', 'list'])(
      'an empty reply to %s does not make a held lock free',
      async (act) => {
        const opened = await client(2)
        const { request, take } = opened
        const run = runOf(opened, act)
        // Opens both connections.
        await Promise.all([1, 2].map(async (n) => run(await take(request(`${act} ${n} by ${by}, before`)))))
        const grant = await take(request(`${act} by ${by}, held`))
        await replaced(opened, emptyReply, () => run(grant))
      },
    )

    if (errorReply !== undefined)
      test('a release is not run again because of the error of another statement', async () => {
        const opened = await client(2)
        const { adapter, request, take } = opened
        // Opens both connections.
        await Promise.all(
          [1, 2].map(async (n) => adapter.release(await take(request(`${n} by ${by}, before`)))),
        )
        const grant = await take(request(`error by ${by}`))
        await replaced(opened, errorReply, () => adapter.release(grant))
      })
  })
}

/** Replies on the connection of a hold. */
export function sessionReplyTests(
  { server, open, bare, lagging, emptyReply }: ReplyBed,
  strategy: string,
  acts: readonly string[] = ['break', 'inspect', 'list'],
): void {
  const session = { strategy, sessionTtlMs: scaled(10_000) }
  const through = ({ port }: { readonly port: number }): Config => {
    const url = server.url.replace(`${server.host}:${server.port}`, `127.0.0.1:${port}`)
    return { url, ...session }
  }

  describe(strategy, () => {
    test('the reply to another statement is never a grant', async () => {
      const proxy = await startShiftingProxy(server)
      const holder = open({ url: server.url, ...session })
      const locks = open(through(proxy))
      // Opens connections and prepares statements.
      for (let n = 0; n < 3; n += 1) await locks.with('mine', () => undefined)
      const theirs = await holder.lock('theirs').acquire()
      for (let round = 0; round < 5; round += 1) {
        proxy.record()
        await locks.with('mine', () => undefined)
        proxy.insert()
        const got = await locks
          .lock('theirs')
          .tryAcquire()
          .catch((error: unknown) => error)
        expect(got === null || isLockError(got, 'LOCK_UNAVAILABLE')).toBe(true)
      }
      expect(proxy.inserted).toBeGreaterThan(0)
      await theirs.release()
    })

    test('the reply to an earlier probe does not renew, nor does it release', async () => {
      const proxy = await startShiftingProxy(server)
      const locks = open(through(proxy))
      const lease = await locks.lock('probed').acquire()
      await lease.extend()
      proxy.record()
      await lease.extend()
      proxy.insert()
      await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
      await locks.lock('probed').acquire({ waitMs: scaled(5_000) })
    })

    test.each(acts)('an empty reply to %s does not make a held lock free', async (act) => {
      const { url, insert } = await lagging(server)
      const holder = bare({ url: server.url, ...session })
      const run = runOf(bare({ url, ...session, poolSize: 1 }), act)
      const grant = await holder.take(holder.request(`nothing to ${act}`))
      await run({ ...grant, name: 'another' })
      insert(emptyReply)
      await expect(run(grant)).rejects.toMatchObject(unknown)
    })
  })
}
