import type { AcquireRequest } from '@locks/core/adapter'
import { expect, test } from 'vitest'
import { never } from '../../../conformance/test-support/bare-adapter.ts'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { Waiters } from '../src/waiters.ts'

const request: AcquireRequest = {
  name: 'a',
  attemptId: 'c:1',
  owner: 'o',
  mode: 'exclusive',
  ttlMs: 30_000,
  lockDelayMs: 0,
  willWait: true,
  metadata: { host: 'h', pid: 1 },
}

function bed() {
  const clock = new HandClock()
  const waiters = new Waiters(clock)
  const { tag } = waiters.expect(request)
  /** Whether a wait that begins now is over. */
  const begin = (): (() => Promise<boolean>) => {
    let over = false
    void waiters.until(request.attemptId, 30_000, never).then(() => (over = true))
    return async () => {
      await new Promise((resolve) => setImmediate(resolve))
      return over
    }
  }
  return { clock, waiters, begin, tag }
}

test('a message that may have been missed during the question ends the wait before it begins', async () => {
  const { waiters, begin, tag } = bed()
  waiters.wakeAll()
  waiters.hint(tag, 3_000)
  expect(await begin()()).toBe(true)
})

test('a waiter that became first in line during the question looks when the claim ends', async () => {
  const { clock, waiters, begin, tag } = bed()
  waiters.hint(tag, 3_000)
  waiters.hint(tag, 20_000)
  clock.move(1_000)
  const over = begin()
  clock.move(1_999)
  expect(await over()).toBe(false)
  clock.move(1)
  expect(await over()).toBe(true)
})

test('a new question answers earlier messages', async () => {
  const { clock, waiters, begin, tag } = bed()
  waiters.wakeAll()
  waiters.hint(tag, 3_000)
  waiters.expect(request)
  const over = begin()
  clock.move(29_999)
  expect(await over()).toBe(false)
  clock.move(1)
  expect(await over()).toBe(true)
})

test('a message cannot delay a look, and cannot cause two within a second', async () => {
  const { clock, waiters, begin, tag } = bed()
  const first = begin()
  waiters.hint(tag, 3_000)
  waiters.hint(tag, 20_000)
  clock.move(3_000)
  expect(await first()).toBe(true)
  waiters.expect(request)
  const second = begin()
  waiters.hint(tag, 0)
  clock.move(999)
  expect(await second()).toBe(false)
  clock.move(1)
  expect(await second()).toBe(true)
})
