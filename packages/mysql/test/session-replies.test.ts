import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { sessionReplyTests } from '../../sql/test/support/reply-tests.ts'
import { lagging, NOTHING_CHANGED } from './support/lagging-proxy.ts'
import { bare, open, startServer } from './support/setup.ts'

const server = await startServer({ 'max-connections': 200 })
const strategies = ['row', 'named']

for (const strategy of strategies)
  sessionReplyTests({ server, open, bare, lagging, emptyReply: NOTHING_CHANGED }, strategy)

test.each(strategies)('%s: an empty reply neither releases nor renews', async (strategy) => {
  const sessionTtlMs = scaled(10_000)
  for (const act of ['release', 'renew'] as const) {
    const { url, insert } = await lagging(server)
    const { adapter, take, request, lost } = bare({ url, strategy, sessionTtlMs })
    const grant = await take(request(`nothing to ${act}`))
    const renewal = { grant, ttlMs: sessionTtlMs, lockDelayMs: 0 }
    await adapter.renew([renewal])
    insert(NOTHING_CHANGED)
    if (act === 'release')
      await expect(adapter.release(grant)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    else expect(await adapter.renew([renewal])).toEqual(['lost'])
    expect(lost).toEqual(act === 'release' ? [] : [grant.attemptId])
  }
})
