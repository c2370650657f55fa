import type { AcquireRequest, Holder, HolderMetadata } from '@locks/core'
import type { Cell } from './line.ts'

/** Who holds, as JSON: read by people in the table, and by `inspect`. */
export function writeHolder({ owner, metadata }: Pick<AcquireRequest, 'owner' | 'metadata'>): string {
  return JSON.stringify({ owner, metadata })
}

export function readHolder(text: Cell, fence: Cell, since: Cell): Holder | undefined {
  if (text === undefined) return undefined
  const read: unknown = JSON.parse(text)
  if (typeof read !== 'object' || read === null || !('owner' in read) || typeof read.owner !== 'string')
    return undefined
  return {
    owner: read.owner,
    ...('metadata' in read && isMetadata(read.metadata) && { metadata: read.metadata }),
    ...(fence !== undefined && { fence: BigInt(fence) }),
    ...(since !== undefined && { since: Number(since) }),
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
