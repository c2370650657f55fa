import { systemClock } from '@locks/core/adapter'
import { ConnectionPool } from '@locks/sql'
import { expect, test } from 'vitest'
import { errors, PlainConnection } from './support/plain-store.ts'

function poolOf(max: number, open: () => Promise<PlainConnection> = async () => new PlainConnection()) {
  return new ConnectionPool<PlainConnection>({ open, max, clock: systemClock, errors })
}

test('there are at most `max` connections; later callers wait their turn, or are refused at once', async () => {
  const connections = poolOf(2)
  const [a, b] = [await connections.take(), await connections.take()]
  await expect(connections.take(0)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await expect(connections.take(5)).rejects.toThrow('maxConnections')
  const [third, fourth] = [connections.take(), connections.take()]
  connections.give(a)
  expect(await third).toBe(a)
  // A broken connection makes room for a new one.
  b.breakDown()
  connections.give(b)
  expect(await fourth).not.toBe(b)
  expect(connections.size).toBe(2)
  await connections.close()
})

test('a connection that ended while idle, or is about to, is not lent', async () => {
  const connections = poolOf(3)
  const first = await connections.take()
  connections.give(first)
  first.breakDown()
  const second = await connections.take()
  expect(second).not.toBe(first)
  second.idleLimitMs = 0
  connections.give(second)
  const third = await connections.take()
  expect(third).not.toBe(second)
  expect(second.ended).toBe(true)
  await connections.close()
  expect(third.ended).toBe(true)
})

test('a failed opening fails one caller and does not count as a connection', async () => {
  let fails = true
  const connections = poolOf(1, async () => {
    if (fails) throw new Error('refused')
    return new PlainConnection()
  })
  const waiting = [connections.take(), connections.take()]
  await expect(waiting[0]).rejects.toThrow('refused')
  await expect(waiting[1]).rejects.toThrow('refused')
  fails = false
  expect(await connections.take()).toBeInstanceOf(PlainConnection)
  await connections.close()
  await expect(connections.take()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})
