import type { AcquireRequest, Holder } from '@locks/core/adapter'
import { code, isRequestError } from './errors.ts'
import type { Wire } from './wire.ts'

/** What a node says about whoever made it, for people to read. */
export function describe({ owner, metadata }: AcquireRequest): Buffer {
  return Buffer.from(JSON.stringify({ owner, ...metadata }))
}

/** Who has a node; undefined when it is gone by now. */
export async function readHolder(wire: Wire, path: string): Promise<Holder | undefined> {
  try {
    const { data, stat } = await wire.data(path)
    const fence = stat.czxid.readBigInt64BE()
    const since = Number(stat.ctime.readBigInt64BE())
    return { owner: path.slice(path.lastIndexOf('/') + 1), ...parse(data), fence, since }
  } catch (error) {
    if (isRequestError(error, code.noNode)) return undefined
    throw error
  }
}

/** Other programs put other things there, or nothing; Curator the address of its host. */
function parse(data: Buffer | undefined): Omit<Holder, 'fence' | 'since'> | undefined {
  const text = data?.toString('utf8') ?? ''
  if (!text.startsWith('{')) return /^[\d.:a-fA-F]{3,45}$/.test(text) ? { owner: text } : undefined
  try {
    const value: unknown = JSON.parse(text)
    if (!isDescription(value)) return undefined
    const { owner, host, pid, label } = value
    return { owner, metadata: typeof label === 'string' ? { host, pid, label } : { host, pid } }
  } catch {
    return undefined
  }
}

function isDescription(value: unknown): value is {
  readonly owner: string
  readonly host: string
  readonly pid: number
  readonly label?: unknown
} {
  if (typeof value !== 'object' || value === null) return false
  if (!('owner' in value) || !('host' in value) || !('pid' in value)) return false
  return typeof value.owner === 'string' && typeof value.host === 'string' && typeof value.pid === 'number'
}
