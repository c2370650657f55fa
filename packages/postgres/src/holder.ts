import type { AcquireRequest, Holder, HolderMetadata } from '@locks/core'

/** Who holds, as JSON in a text column: escapes keep it free of the NUL that the server refuses. */
export function writeHolder({ owner, metadata }: Pick<AcquireRequest, 'owner' | 'metadata'>): string {
  return JSON.stringify({ owner, metadata })
}

export function readHolder(
  text: string | null | undefined,
  fence: string | null | undefined,
  since: string | null | undefined,
): Holder | undefined {
  if (text === null || text === undefined) return undefined
  const read: unknown = JSON.parse(text)
  if (typeof read !== 'object' || read === null || !('owner' in read) || typeof read.owner !== 'string')
    return undefined
  return {
    owner: read.owner,
    ...('metadata' in read && isMetadata(read.metadata) && { metadata: read.metadata }),
    ...(fence !== null && fence !== undefined && { fence: BigInt(fence) }),
    ...(since !== null && since !== undefined && { since: Number(since) }),
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
