import { defaultOwner, readHolder } from '@locks/core/adapter'
import type { AcquireRequest, Holder, Waiter } from '@locks/core/adapter'
import { HOLD_FIELD, QUEUE_FIELD } from './script.ts'

/** What is stored about a holder beside its lock. The default owner is left out. */
export function aboutOf({ attemptId, owner, metadata }: AcquireRequest): string {
  const { host, pid, label } = metadata
  const named = owner !== defaultOwner(attemptId)
  if (named || label !== undefined || pid !== process.pid)
    return JSON.stringify(named ? { owner, ...metadata } : metadata)
  if (host !== usual.host) usual = { host, text: `${pid}@${host}` }
  return usual.text
}

/** The text of nearly every request of a process: short, and built once. */
let usual = { host: '', text: '' }

/** The holder in the fields of a lock. Redisson's lock has nothing but the field of its holder. */
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

/** The waiters of a queue, from its members and their scores, without attempt ids and secrets. */
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

function readAbout(about: string): ReturnType<typeof readHolder> {
  const [, pid, host = ''] = /^(\d+)@(.*)$/s.exec(about) ?? []
  return pid === undefined ? readHolder(about) : { metadata: { host, pid: Number(pid) } }
}
