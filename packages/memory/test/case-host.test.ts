import { conformance, summarise } from '@locks/core/conformance'
import type { ConformanceCase, HistoryEvent } from '@locks/core/conformance'
import { memory } from '@locks/memory'
import { expect, test } from 'vitest'

async function caseOf(id: string): Promise<ConformanceCase> {
  const cases = await conformance({ name: 'memory', config: 'memory:', adapter: memory() })
  const found = cases.find((one) => one.id === id)
  if (found === undefined) throw new Error(`there is no rule ${id}`)
  return found
}

test('a contended case reports the history that it was judged by', async () => {
  const histories: (readonly HistoryEvent[])[] = []
  const { run } = await caseOf('UNIQ-2')
  await run({ onHistory: (events) => void histories.push(events) })
  expect(histories).toHaveLength(1)
  expect(summarise(histories[0] ?? [])).toMatchObject({ grants: 320, maxHolders: 1 })
})

test('a case that is ended early rejects with the reason', async () => {
  const stop = new AbortController()
  const { run } = await caseOf('UNIQ-3')
  const outcome = run({ signal: stop.signal })
  const reason = new Error('enough')
  stop.abort(reason)
  await expect(outcome).rejects.toBe(reason)
  await expect(run({ signal: stop.signal })).rejects.toBe(reason)
})
