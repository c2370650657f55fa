import type { AcquireRequest, Holder, HolderMetadata, Waiter } from '@locks/core/adapter'

/** A column as text; drivers differ in what they call nothing. */
type Cell = string | null | undefined

/**
 * Who holds, as JSON: read by people in the table, and by `inspect`. Escapes keep it free of NUL, which servers refuse,
 * and of whatever the encoding of a database has not.
 */
export function writeHolder({ owner, metadata }: Pick<AcquireRequest, 'owner' | 'metadata'>): string {
  return JSON.stringify({ owner, metadata }).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

export function readHolder(text: Cell, fence: Cell, since: Cell): Holder | undefined {
  if (text === null || text === undefined) return undefined
  return {
    ...read(text),
    ...(fence !== null && fence !== undefined && { fence: BigInt(fence) }),
    ...(since !== null && since !== undefined && { since: Number(since) }),
  }
}

/** Waiters by what they wrote, as a JSON list of such texts. */
export function readWaiters(list: Cell): Waiter[] {
  const texts: unknown = JSON.parse(list ?? '[]')
  return Array.isArray(texts) ? texts.map((text) => read(String(text))) : []
}

/** What somebody else wrote there is a holder all the same. */
function read(text: string): Pick<Holder, 'owner' | 'metadata'> {
  let about: unknown
  try {
    about = JSON.parse(text)
  } catch {
    return { owner: 'unknown' }
  }
  if (typeof about !== 'object' || about === null) return { owner: 'unknown' }
  return {
    owner: 'owner' in about && typeof about.owner === 'string' ? about.owner : 'unknown',
    ...('metadata' in about && isMetadata(about.metadata) && { metadata: about.metadata }),
  }
}

function isMetadata(value: unknown): value is HolderMetadata {
  return (
    typeof value === 'object' &&
    value !== null &&
    'host' in value &&
    typeof value.host === 'string' &&
    'pid' in value &&
    typeof value.pid === 'number' &&
    (!('label' in value) || typeof value.label === 'string')
  )
}
