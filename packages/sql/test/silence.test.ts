import { unlessSilent } from '@locks/sql'
import { expect, test } from 'vitest'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { errors } from './support/plain-store.ts'

function bed() {
  const clock = new HandClock()
  let answer: (text: string) => void = () => undefined
  const sent = new Promise<string>((resolve) => (answer = resolve))
  const given: string[] = []
  const outcome = unlessSilent(sent, clock, errors, () => void given.push('up'))
  outcome.catch(() => undefined)
  return { clock, answer, given, outcome }
}

test('a statement that is not answered in time is given up', async () => {
  const { clock, given, outcome } = bed()
  clock.move(5_000)
  await expect(outcome).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(given).toEqual(['up'])
})

test('an answer that arrived while the process was paused counts', async () => {
  const { clock, answer, given, outcome } = bed()
  // Timers run before sockets are read.
  clock.move(7_000)
  answer('here')
  expect(await outcome).toBe('here')
  expect([given, clock.timers.size]).toEqual([[], 0])
})

test('a statement still unanswered after a pause is given up a second later', async () => {
  const { clock, given, outcome } = bed()
  clock.move(7_000)
  expect(given).toEqual([])
  clock.move(1_000)
  await expect(outcome).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(given).toEqual(['up'])
})
