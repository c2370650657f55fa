import { systemClock } from '@locks/core/adapter'
import { Lines } from '@locks/sql'
import { expect, test } from 'vitest'
import { faults, PlainLine } from './plain-store.ts'

function linesOf(max: number, open: () => Promise<PlainLine> = async () => new PlainLine()) {
  return new Lines<PlainLine>({ open, max, clock: systemClock, faults })
}

test('there are never more than told; who comes later waits its turn, or is told at once', async () => {
  const lines = linesOf(2)
  const [a, b] = [await lines.take(), await lines.take()]
  await expect(lines.take(0)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await expect(lines.take(5)).rejects.toThrow('maxConnections')
  const [third, fourth] = [lines.take(), lines.take()]
  lines.give(a)
  expect(await third).toBe(a)
  // One that broke makes room for a new one.
  b.breakDown()
  lines.give(b)
  expect(await fourth).not.toBe(b)
  expect(lines.size).toBe(2)
  await lines.close()
})

test('what ended or is about to be ended while idle is not lent', async () => {
  const lines = linesOf(3)
  const first = await lines.take()
  lines.give(first)
  first.breakDown()
  const second = await lines.take()
  expect(second).not.toBe(first)
  second.idleLimitMs = 0
  lines.give(second)
  const third = await lines.take()
  expect(third).not.toBe(second)
  expect(second.ended).toBe(true)
  await lines.close()
  expect(third.ended).toBe(true)
})

test('a failed opening fails one caller and keeps no place', async () => {
  let fails = true
  const lines = linesOf(1, async () => {
    if (fails) throw new Error('refused')
    return new PlainLine()
  })
  const waiting = [lines.take(), lines.take()]
  await expect(waiting[0]).rejects.toThrow('refused')
  await expect(waiting[1]).rejects.toThrow('refused')
  fails = false
  expect(await lines.take()).toBeInstanceOf(PlainLine)
  await lines.close()
  await expect(lines.take()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})
