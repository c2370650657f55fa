import type { Holder, HolderMetadata } from './spi.ts'

type Described = Partial<Pick<Holder, 'owner' | 'metadata'>>

/**
 * The holder as JSON, for people and for `readHolder`. It is escaped to ASCII: servers refuse NUL, and the encoding of
 * a database may lack other characters.
 */
export function writeHolder({ owner, metadata }: Described): string {
  return JSON.stringify({ owner, ...metadata }).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/**
 * Reads a holder from `text`, as far as possible: other programs may have written it. The metadata may be beside the
 * owner or under the key `metadata`.
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

/** A copy of the holder's metadata in `value`, without other properties; undefined without host and pid. */
export function readMetadata(value: unknown): HolderMetadata | undefined {
  if (typeof value !== 'object' || value === null || !('host' in value) || !('pid' in value)) return undefined
  const { host, pid } = value
  if (typeof host !== 'string' || typeof pid !== 'number') return undefined
  return 'label' in value && typeof value.label === 'string'
    ? { host, pid, label: value.label }
    : { host, pid }
}
