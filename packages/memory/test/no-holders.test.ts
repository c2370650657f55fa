import type { AdapterFactory } from '@locks/core'
import { conformance } from '@locks/core/conformance'
import { memory } from '@locks/memory'
import { expect, test } from 'vitest'

/** A store that does not report the holder of a busy name, which is optional. */
function withoutHolders(): AdapterFactory {
  const store = memory()
  return (host) => {
    const adapter = store(host)
    return {
      ...adapter,
      async attempt(request) {
        const answer = await adapter.attempt(request)
        if (!('busy' in answer)) return answer
        const { holder: _, ...busy } = answer
        return busy
      },
    }
  }
}

const cases = await conformance({ name: 'no holders', config: 'memory:', adapter: withoutHolders() })

test('a store that does not report the holder of a busy name passes ERR-7', async ({ signal }) => {
  const rule = cases.find(({ id }) => id === 'ERR-7')
  expect(rule?.untested).toBeUndefined()
  await rule?.run({ signal })
})
