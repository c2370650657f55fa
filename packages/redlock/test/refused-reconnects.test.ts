import { expect, test } from 'vitest'
import { startService } from '../../../conformance/services/index.ts'
import {
  refusedRounds,
  refusedRoundsMs,
  refuseReconnects,
} from '../../../conformance/test-support/refused-reconnects.ts'
import { connect, over } from './support/bed.ts'

test.each([
  ['with fences', true],
  ['without fences', false],
])('a refused reconnect grants nothing twice, %s', { timeout: 2 * refusedRoundsMs }, async (_, fencing) => {
  await using service = await startService('redis-independent', { count: 3, needsControl: true })
  const patient = { storeTimeoutMs: 20_000 }
  const options = over(service.servers, { fencing })
  const [holder, other] = [connect(options, patient), connect(options, patient)]
  const { servers } = service
  const { doubleGrants, answered } = await refuseReconnects({ holder, other, servers }, refusedRounds)
  expect(doubleGrants).toBe(0)
  expect(answered).toBeGreaterThanOrEqual(refusedRounds / 2)
})
