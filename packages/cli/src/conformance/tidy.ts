import { randomUUID } from 'node:crypto'
import { loadAdapter, systemClock } from '@locks/core/adapter'
import type { Adapter } from '@locks/core/adapter'
import type { Subject } from '@locks/core/conformance'

/** What stays in the store, and why. */
export interface Left {
  readonly names: number
  readonly why: string
}

/** So many names are looked at at a time. */
const BATCH = 16

/** More holders and dead waiters than any rule leaves in a queue. */
const MOST_HOLDS = 1_000

/**
 * Ends what dead processes of the suite still hold, and drops what the store keeps of these names, and of no others:
 * `prune` keeps their fences rising, should somebody else use one of them.
 */
export async function tidy(subject: Subject, names: readonly string[]): Promise<readonly Left[]> {
  const factory = subject.adapter ?? (await loadAdapter(subject.config))
  const adapter = factory({ clientId: randomUUID(), clock: systemClock, report: () => undefined })
  try {
    let held = 0
    for (let at = 0; at < names.length; at += BATCH) {
      const freed = await Promise.all(names.slice(at, at + BATCH).map((name) => free(adapter, name)))
      held += freed.filter((isFree) => !isFree).length
    }
    const stillHeld = { names: held, why: 'they are held, and the adapter cannot break a hold' }
    return [stillHeld, await drop(adapter, names)].filter((left) => left.names > 0)
  } finally {
    await adapter.close?.()
  }
}

async function free(adapter: Adapter, name: string): Promise<boolean> {
  for (let holds = 0; holds < MOST_HOLDS; holds += 1) {
    const { held, holder } = await adapter.inspect(name)
    if (!held) return true
    if (holder === undefined || adapter.break === undefined) return false
    await adapter.break(name, holder)
  }
  return false
}

async function drop(adapter: Adapter, names: readonly string[]): Promise<Left> {
  for (;;) {
    const step = await adapter.prune?.(0, names)
    if (step?.more !== true) return step?.kept ?? { names: 0, why: '' }
  }
}
