import type { AcquireRequest, Holder, HolderMetadata } from '@locks/core'
import { isRecord } from './options.ts'
import { ABOUT_FIELD } from './scripts.ts'

/** What a request says about its holder, as it is kept beside the lock. */
export function aboutOf({ attemptId, owner, metadata }: AcquireRequest): string {
  return JSON.stringify(owner === attemptId ? metadata : { owner, ...metadata })
}

/** The holder by the fields of its lock: ours says more than Redisson's, whose field is all there is. */
export function holderOf(fields: readonly unknown[]): {
  readonly holder: Holder | undefined
  readonly foreign: boolean
} {
  let attempt: string | undefined
  let about: string | undefined
  for (let n = 0; n < fields.length; n += 2) {
    if (fields[n] === ABOUT_FIELD) about = String(fields[n + 1])
    else attempt = String(fields[n])
  }
  if (attempt === undefined) return { holder: undefined, foreign: false }
  const [, fence, since, json] = /^(\d+);(\d+);(.*)$/s.exec(about ?? '') ?? []
  if (fence === undefined || json === undefined) return { holder: { owner: attempt }, foreign: true }
  const { owner, metadata } = readAbout(json)
  const holder = { owner: owner ?? attempt, fence: BigInt(fence), since: Math.floor(Number(since) / 1_000) }
  return { holder: metadata === undefined ? holder : { ...holder, metadata }, foreign: false }
}

function readAbout(json: string): { owner?: string; metadata?: HolderMetadata } {
  let about: unknown
  try {
    about = JSON.parse(json)
  } catch {
    return {}
  }
  if (!isRecord(about)) return {}
  const { owner, host, pid, label } = about
  const named = typeof owner === 'string' ? { owner } : {}
  if (typeof host !== 'string' || typeof pid !== 'number') return named
  return { ...named, metadata: typeof label === 'string' ? { host, pid, label } : { host, pid } }
}
