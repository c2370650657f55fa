import { defaultOwner, readHolder } from '@locks/core/adapter'
import type { AcquireRequest, Holder, LockError, RenewOutcome, Waiter } from '@locks/core/adapter'
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { errors } from './errors.ts'
import { HOLD_FIELD, QUEUE_FIELD } from './lua.ts'
import { isOne, keysOf, listOf } from './script.ts'
import type { Keys } from './script.ts'

// What Redis keeps of a lock: its keys and channels, its holder and its queue, and what scripts reply about them.

/** The keys and channels of one lock: Redisson's, and our queue and channel beside them. */
export interface Layout {
  readonly lock: string
  readonly token: string
  readonly queue: string
  /** The three of them. */
  readonly keys: Keys
  /** The channel on which Redisson publishes a release. */
  readonly redisson: string
  /** The channel of grants, without the client id that ends it. */
  readonly grants: string
}

/** On a Cluster, names whose keys do not share a slot in Redisson's layout are encoded under this. */
const ENCODED = 'locks_name:{'

/**
 * As Redisson names its keys. There a name with a brace may not share its slot with its token. On a Cluster Redisson
 * cannot use such a name, and we encode it; on one server it does not matter.
 */
export function layoutOf(name: string, cluster: boolean): Layout {
  const lock = cluster && !sharesSlot(name) ? `${ENCODED}${encodeURIComponent(name)}}` : name
  return layoutBeside(lock, cluster)
}

/** The names that go with the key of a lock. */
export function layoutBeside(lock: string, cluster: boolean): Layout {
  const token = beside('redisson_lock_token', lock)
  const queue = ownBeside('locks_queue', lock)
  return {
    lock,
    token,
    queue,
    keys: keysOf([lock, token, queue]),
    redisson: beside('redisson_lock__channel', lock),
    grants: cluster ? `${ownBeside('locks_grants', lock)}:` : 'locks_grants:',
  }
}

/** The name of the lock under `key`, if it is one. */
export function nameOf(key: string, cluster: boolean): string | undefined {
  if (!cluster || sharesSlot(key)) return key
  const name = key.startsWith(ENCODED) ? decoded(key.slice(ENCODED.length, -1)) : undefined
  return name !== undefined && layoutOf(name, cluster).lock === key ? name : undefined
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** As Redisson does it: `x` and `{x}` share it, which a counter or a channel may be. */
function beside(prefix: string, lock: string): string {
  return lock.includes('{') ? `${prefix}:${lock}` : `${prefix}:{${lock}}`
}

/** For keys that no two locks may share. A brace behind the first colon is always ours. */
function ownBeside(prefix: string, lock: string): string {
  return lock.includes('{') ? `${prefix}::${lock}` : `${prefix}:{${lock}}`
}

function sharesSlot(name: string): boolean {
  if (name.startsWith(ENCODED)) return false
  const open = name.indexOf('{')
  // Without a tag the whole name counts, and goes into braces: a closing one in it would end the tag early.
  return open < 0 ? !name.includes('}') : name.indexOf('}', open + 1) > open + 1
}

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

/** 128 bits: an entry of the queue should stay short. */
const SECRET_LENGTH = 22

/**
 * Distinguishes grants of the store from messages of other publishers. Every entry of a queue carries a secret that
 * only the store and this client know; a grant ends with a hash keyed with it. Secrets are derived from one key, so
 * that none has to be remembered: a grant may also come for a withdrawn attempt.
 */
export class Proofs {
  readonly #key = randomBytes(32)

  secretOf(lock: string, attemptId: string): string {
    const text = `${attemptId} ${lock}`
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, SECRET_LENGTH)
  }

  /** Whether `proof` is the store's for `text`, a grant of `lock` to `attemptId`. */
  isValid(lock: string, attemptId: string, text: string, proof: string): boolean {
    const secret = this.secretOf(lock, attemptId)
    // As `redis.sha1hex` does it in the scripts.
    const expected = hash('sha1', secret + hash('sha1', secret + text))
    return proof.length === expected.length && timingSafeEqual(Buffer.from(proof), Buffer.from(expected))
  }
}
