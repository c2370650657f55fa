import { readHolder } from '@locks/core/adapter'
import type { Holder, LockState, Waiter } from '@locks/core/adapter'

/** A column as text. Drivers return null or undefined for NULL. */
type Cell = string | null | undefined

/** A holder from its columns. Text that this library did not write is still a holder, with an unknown owner. */
export function holderFrom(text: Cell, fence: Cell, since: Cell): Holder | undefined {
  if (text === null || text === undefined) return undefined
  return {
    ...waiterFrom(text),
    ...(fence !== null && fence !== undefined && { fence: BigInt(fence) }),
    ...(since !== null && since !== undefined && { since: Number(since) }),
  }
}

/** What `inspect` and `list` show of a name that is held. */
export function stateFrom(name: string, [fence, holder, since, remaining]: readonly Cell[]): LockState {
  const by = holderFrom(holder, fence, since)
  return {
    name,
    held: true,
    ...(by && { holder: by }),
    ...(remaining !== null && remaining !== undefined && { remainingMs: Math.max(0, Number(remaining)) }),
  }
}

/** Waiters from a JSON array, each a holder text, with the time since when it waits where that is known. */
export function waitersFrom(list: Cell): Waiter[] {
  const items: unknown = JSON.parse(list ?? '[]')
  if (!Array.isArray(items)) return []
  return items.map((item: unknown) => {
    if (!Array.isArray(item)) return waiterFrom(String(item))
    const [text, since] = item.map((part: unknown) => part)
    return { ...waiterFrom(String(text)), ...(typeof since === 'number' && { since }) }
  })
}

function waiterFrom(text: string): Waiter {
  return { owner: 'unknown', ...readHolder(text) }
}
