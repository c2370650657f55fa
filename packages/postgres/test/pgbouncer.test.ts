import { describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { startPgbouncer, whyNoPgbouncer } from './pgbouncer.ts'
import { contended, open, startServer } from './setup.ts'

const missing = await whyNoPgbouncer()
const server = await startServer()

async function start(mode: 'session' | 'transaction'): Promise<string> {
  const { url, close } = await startPgbouncer(server, mode)
  onTestFinished(close)
  return url
}

describe('trap 6: PgBouncer', () => {
  test('row refuses a pooler in transaction mode before it locks anything', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const locks = open({ url: await start('transaction'), strategy: 'row' })
    for (const outcome of [locks.lock('a').acquire(), locks.lock('b').tryAcquire()])
      await expect(outcome).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
  })

  test('row works through a pooler in session mode', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const locks = open({ url: await start('session'), strategy: 'row' })
    const lease = await locks.lock('a').acquire()
    await lease.extend()
    await lease.release()
  })

  test('unique-key works in transaction mode, by polling', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const url = `${await start('transaction')}?listen=false`
    const [holder, waiter] = [open({ url }, { ttlMs: scaled(1_000) }), open({ url })]
    const lease = await holder.lock('a').acquire()
    const waits = contended(waiter, 'a')
    const turns = Array.from({ length: 20 }, () =>
      waiter.with('a', { waitMs: scaled(20_000) }, ({ fence }) => fence),
    )
    await waits
    await lease.extend()
    await lease.release()
    const fences = await Promise.all(turns)
    expect(fences).toEqual(fences.map((_, n) => lease.fence + BigInt(n) + 1n))
  })
})
