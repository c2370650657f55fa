import { defaultOwner, readHolder } from '@locks/core/adapter'
import type { AcquireRequest, Holder, LockError, RenewOutcome, Waiter } from '@locks/core/adapter'
import { errors } from './errors.ts'
import { HOLD_FIELD, QUEUE_FIELD } from './lua.ts'

/** The reply to an attempt that does not get the lock. */
export interface Refusal {
  readonly busy: true
  /** Which attempt holds the lock, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  /** The holder is Redisson's: its release is published on Redisson's channel only. */
  readonly foreign: boolean
  readonly remainingMs: number
  /** How many wait before this attempt; -1 if it is not in the queue. */
  readonly position: number
  /** The server's time in µs. */
  readonly serverTime: number
}

/** What Redis knows about a name. */
export interface Look {
  /** Which attempt holds it, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  readonly remainingMs: number
  readonly waiters: number
  /** The first of them. */
  readonly waiting: readonly Waiter[]
}

export function answerOf(reply: unknown): bigint | Refusal {
  if (typeof reply === 'string') return BigInt(reply)
  const [remainingMs, position, serverTime, ...fields] = listOf(reply)
  const { attempt, holder, foreign } = holderOf(fields)
  return {
    busy: true,
    attempt,
    holder,
    foreign,
    remainingMs: remainingOf(remainingMs),
    position: Number(position),
    serverTime: Number(serverTime),
  }
}

export function lookIn(reply: unknown): Look {
  const [remainingMs, waiters, first, ...fields] = listOf(reply)
  const { attempt, holder } = holderOf(fields)
  const waiting = waitersOf(listOf(first))
  return { attempt, holder, remainingMs: remainingOf(remainingMs), waiters: Number(waiters ?? 0), waiting }
}

/** From the reply of PTTL: a key without a ttl, which no lock has, stays forever. */
function remainingOf(reply: unknown): number {
  const remainingMs = Number(reply)
  return remainingMs === -1 ? Number.MAX_SAFE_INTEGER : Math.max(0, remainingMs)
}

export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}

/** The user's client may be configured to return numbers as strings. */
export function isOne(reply: unknown): boolean {
  return Number(reply) === 1
}

export function outcomeOf(reply: unknown): RenewOutcome {
  return isOne(reply) ? 'renewed' : Number(reply) === 0 ? 'lost' : 'unknown'
}

export function notAnAttempt(): LockError {
  return errors.invalid('an attempt id must be <uuid>:<number>; nothing was changed')
}

/** Rejects if the script refused to touch a key. */
export function unlessRefused<T>(read: (reply: unknown) => T): (reply: unknown) => T {
  return (reply) => {
    const refusal = refusalIn(reply)
    if (refusal !== undefined) throw refusal
    return read(reply)
  }
}

/**
 * The error of a script that refused to touch a key. It is final: trying again cannot help before a person has looked
 * at the key. Undefined for any other reply.
 */
function refusalIn(reply: unknown): LockError | undefined {
  if (!Array.isArray(reply) || reply[0] !== 'refused') return undefined
  const [, why, key, kind, size] = reply.map(String)
  const quoted = JSON.stringify(key)
  switch (why) {
    case 'range':
      return errors.unsupported(
        `the fence counter ${quoted} in Redis is above 2^53 - 2, so the next fence could repeat; ` +
          'nothing was granted. Choose another name or prefix, or delete the key if no resource has seen its fences',
      )
    case 'attempt':
      return notAnAttempt()
    default: {
      const what = kind === 'hash' ? `a hash of ${size} ${size === '1' ? 'field' : 'fields'}` : `a ${kind}`
      return errors.invalid(
        `the key ${quoted} in Redis is ${what} that does not belong to a lock of @locks or Redisson; ` +
          'nothing was changed. Choose another lock name or another prefix',
      )
    }
  }
}

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
function holderOf(fields: readonly unknown[]): {
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
function waitersOf(members: readonly unknown[]): Waiter[] {
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
