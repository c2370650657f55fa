import { text } from 'node:stream/consumers'
import { getHeapSnapshot } from 'node:v8'
import { expect, test } from 'vitest'
import { bare, over, servers, uniqueName, until } from './support/bed.ts'

/** How many strings that begin so are in use. */
async function stringsInUse(start: string): Promise<number> {
  const snapshot: unknown = JSON.parse(await text(getHeapSnapshot()))
  if (typeof snapshot !== 'object' || snapshot === null || !('strings' in snapshot)) return NaN
  return Array.isArray(snapshot.strings)
    ? snapshot.strings.filter((one) => String(one).startsWith(start)).length
    : NaN
}

test('holds that are left to their lock-delay are forgotten here when they end there', async () => {
  const { servers: nodes } = await servers(3)
  const { adapter, request, take } = bare(over(nodes, { nodeTimeoutMs: 10_000 }))
  for (let round = 0; round < 4; round += 1) {
    for (let part = 0; part < 10; part += 1)
      await Promise.all(
        Array.from({ length: 100 }, () => take(request(uniqueName(), { ttlMs: 2_000, lockDelayMs: 100 }))),
      )
    await until(async () => (await adapter.list?.(1))?.length === 0)
  }
  const [clientId = 'none'] = request('any').attemptId.split(':')
  // Those of a round, and as many again before they are looked for.
  const kept = await stringsInUse(`${clientId}:`)
  expect(kept).toBeGreaterThan(0)
  expect(kept).toBeLessThan(2_500)
})
