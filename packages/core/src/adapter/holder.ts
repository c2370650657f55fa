import type { Holder, HolderMetadata } from './spi.ts'

type Described = Partial<Pick<Holder, 'owner' | 'metadata'>>

/**
 * Who holds, as JSON for people and for `readHolder`. Escapes keep it in ASCII: free of NUL, which servers refuse, and of
 * what the encoding of a database does not have.
 */
export function writeHolder({ owner, metadata }: Described): string {
  return JSON.stringify({ owner, ...metadata }).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/**
 * What `text` says of a holder, as far as it can be read: other programs may have written it. The metadata may stand
 * beside the owner or under a key of its own.
 */
export function readHolder(text: string): Described {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return {}
  }
  if (typeof value !== 'object' || value === null) return {}
  const metadata = readMetadata('metadata' in value ? value.metadata : value)
  return {
    ...('owner' in value && typeof value.owner === 'string' && { owner: value.owner }),
    ...(metadata !== undefined && { metadata }),
  }
}

/** A copy of what `value` has of a holder's metadata, and nothing else; undefined without host and pid. */
export function readMetadata(value: unknown): HolderMetadata | undefined {
  if (typeof value !== 'object' || value === null || !('host' in value) || !('pid' in value)) return undefined
  const { host, pid } = value
  if (typeof host !== 'string' || typeof pid !== 'number') return undefined
  return 'label' in value && typeof value.label === 'string'
    ? { host, pid, label: value.label }
    : { host, pid }
}
