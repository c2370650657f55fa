import type { AdapterFactory, Holder } from '@locks/core'
import { conformance } from '@locks/core/conformance'
import { memory } from '@locks/memory'
import { describe, test } from 'vitest'

/** The areas whose rules check who holds a name. */
const areas = /^(OWN|WAIT|LOST|OPER)-/

/** A store that has no fences, and says so. */
function withoutFences(): AdapterFactory {
  const store = memory()
  return (host) => {
    const adapter = store(host)
    return {
      ...adapter,
      capabilities: { ...adapter.capabilities, fencing: 'none' },
      async attempt(request) {
        const answer = await adapter.attempt(request)
        return 'busy' in answer ? fenceless(answer) : answer
      },
      inspect: async (name) => fenceless(await adapter.inspect(name)),
      async break(name, { owner }) {
        const { holder } = await adapter.inspect(name)
        return holder?.owner === owner ? (adapter.break?.(name, holder) ?? 'not-held') : 'not-held'
      },
    }
  }
}

function fenceless<T extends { readonly holder?: Holder }>(answer: T): T {
  if (answer.holder === undefined) return answer
  const { fence: _, ...holder } = answer.holder
  return { ...answer, holder }
}

const cases = await conformance({ name: 'no fences', config: 'memory:', adapter: withoutFences() })

describe('a store without fences passes the rules that are not about fences', () => {
  test.for(cases.filter(({ id, untested }) => areas.test(id) && untested === undefined))(
    '$id',
    async ({ run }, { signal }) => run({ signal }),
  )
})
