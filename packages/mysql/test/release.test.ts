import { expect, test } from 'vitest'
import { bare, connect, open, startServer } from './setup.ts'

const server = await startServer()
const config = { url: server.url }

test('a hold that was broken and used by another since ends as lost, although the name is free', async () => {
  const [holder, operator, other] = [open(config), open(config), open(config)]
  const lease = await holder.lock('broken').acquire()
  await operator.lock('broken').break()
  await other.with('broken', () => undefined)
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  const work = holder.with('broken', async () => {
    await operator.lock('broken').break()
    await other.with('broken', () => undefined)
  })
  await expect(work).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('a release of what is free, never was, has expired or is held by another is not held', async () => {
  const [client, other] = [bare(config), bare(config)]
  const grant = await client.take(client.request('once'))
  expect(await client.adapter.release(grant)).toBe('released')
  expect(await client.adapter.release(grant)).toBe('not-held')
  expect(await client.adapter.release({ ...grant, name: 'never' })).toBe('not-held')
  const taken = await other.take(other.request('once'))
  expect(await client.adapter.release(grant)).toBe('not-held')
  expect(await other.adapter.release(taken)).toBe('released')
  const control = await connect(server)
  const expired = await client.take(client.request('once'))
  const past = 'UTC_TIMESTAMP(6) - INTERVAL 1 SECOND'
  await control.query(`UPDATE locks SET expires_at = ${past}, blocked_until = ${past} WHERE name = 'once'`)
  expect(await client.adapter.release(expired)).toBe('not-held')
})

test('the text of a lease with anything but an attempt id in it continues nothing', async () => {
  const [from, to] = [bare(config), bare(config)]
  const grant = await from.take(from.request('forged'))
  for (const attemptId of ['', 'hold', '\0', `${grant.attemptId}0x`, `${grant.attemptId} `])
    expect(await to.adapter.adopt?.({ ...grant, attemptId }, to.request('forged'))).toBe('lost')
  for (const fence of [0n, -1n, 2n ** 63n, 2n ** 64n])
    expect(await to.adapter.adopt?.({ ...grant, fence }, to.request('forged'))).toBe('lost')
  expect(await to.adapter.adopt?.(grant, to.request('forged'))).toMatchObject({ fence: grant.fence })
})
