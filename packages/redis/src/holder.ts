import { defaultOwner, isRecord } from '@locks/core/adapter'
import type { AcquireRequest, Holder, HolderMetadata, Waiter } from '@locks/core/adapter'
import { HOLD_FIELD, QUEUE_FIELD } from './script.ts'

/** What a request says about its holder, as it is kept beside the lock. The default owner is left out. */
export function aboutOf({ attemptId, owner, metadata }: AcquireRequest): string {
  const { host, pid, label } = metadata
  const named = owner !== defaultOwner(attemptId)
  if (named || label !== undefined || pid !== process.pid)
    return JSON.stringify(named ? { owner, ...metadata } : metadata)
  if (host !== usual.host) usual = { host, text: `${pid}@${host}` }
  return usual.text
}

/** Nearly every request of a process says this: short, and written once. */
let usual = { host: '', text: '' }

/** The holder by the fields of its lock: ours says more than Redisson's, whose field is all there is. */
export function holderOf(fields: readonly unknown[]): {
  readonly attempt?: string
  readonly holder: Holder | undefined
  readonly foreign: boolean
} {
  let [attempt, hold]: (string | undefined)[] = []
  for (let n = 0; n < fields.length; n += 2) {
    const value = String(fields[n + 1])
    if (fields[n] === HOLD_FIELD) hold = value
    else if (fields[n] !== QUEUE_FIELD) attempt = String(fields[n])
  }
  if (attempt === undefined) return { holder: undefined, foreign: false }
  const parts = /^(\d+);(\d*);(.*)$/s.exec(hold ?? '')
  if (parts === null) return { attempt, holder: { owner: attempt }, foreign: true }
  const [, fence = '0', since = '', about = ''] = parts
  const { owner, metadata } = readAbout(about)
  const sinceMs = Math.floor(Number(since === '' ? fence : since) / 1_000)
  const holder = { owner: owner ?? defaultOwner(attempt), fence: BigInt(fence), since: sinceMs }
  return { attempt, holder: metadata === undefined ? holder : { ...holder, metadata }, foreign: false }
}

/** The waiters of a queue, by its members and their scores. Neither attempt nor secret of a member goes on. */
export function waitersOf(members: readonly unknown[]): Waiter[] {
  const waiters: Waiter[] = []
  for (let n = 0; n < members.length; n += 2) {
    const [, attempt, about = ''] = /^(\S+) \d+ \d+ \S+ (.*)$/s.exec(String(members[n])) ?? []
    if (attempt === undefined) continue
    const { owner = defaultOwner(attempt), metadata } = readAbout(about)
    const since = Math.floor(Number(members[n + 1]) / 1_000)
    waiters.push({ owner, since, ...(metadata !== undefined && { metadata }) })
  }
  return waiters
}

function readAbout(json: string): { owner?: string; metadata?: HolderMetadata } {
  const short = /^(\d+)@(.*)$/s.exec(json)
  if (short !== null) return { metadata: { host: short[2] ?? '', pid: Number(short[1]) } }
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
