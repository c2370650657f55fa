import { isAttemptId, isRecord, keptAttemptId, readMetadata } from '@locks/core/adapter'
import type { AcquireRequest, Holder, HolderMetadata } from '@locks/core/adapter'

/**
 * The record of a held name. It has lengths but no times, except `since`, which is for people: each observer decides by
 * its own monotonic clock whether a hold is over.
 */
export interface Held {
  readonly attemptId: string
  readonly owner: string
  readonly metadata: HolderMetadata
  /** Absent in the record of the grant itself: there the version is the fence. */
  readonly fence?: bigint
  readonly ttlMs: number
  readonly lockDelayMs: number
  readonly since: number
  /** Present once it is released: until when the name stays taken, by the store's clock. Its length is `ttlMs`. */
  readonly keptUntil?: number
  /** Different for every write of a holder, so that one whose answer was lost is recognised. */
  readonly write: number
}

/** How long an unreadable record is watched before it is taken over. */
const UNREADABLE_MS = 60_000

const unreadable: Held = {
  // No attempt has this id, so that none renews, releases or adopts it.
  attemptId: '',
  owner: '(unreadable record)',
  metadata: { host: '(unknown)', pid: 0 },
  ttlMs: UNREADABLE_MS,
  lockDelayMs: 0,
  since: 0,
  write: 0,
}

export function newHold(request: AcquireRequest, write: number): Held {
  const { attemptId, owner, metadata, ttlMs, lockDelayMs } = request
  return { attemptId, owner, metadata, ttlMs, lockDelayMs, since: Date.now(), write }
}

/** The record that a release leaves for `keepMs` more. No attempt has its id. */
export function keptHold(held: Held & { readonly fence: bigint }, keepMs: number, keptUntil: number): Held {
  return { ...held, attemptId: keptAttemptId(held.attemptId), ttlMs: keepMs, lockDelayMs: 0, keptUntil }
}

/** The name is included for people who look at the store. */
export function encodeHeld(name: string, { fence, ...rest }: Held): string {
  return JSON.stringify({ name, ...rest, ...(fence !== undefined && { fence: String(fence) }) })
}

/** With client and write, so that each client recognises its own release. */
export function encodeFree(name: string, client: string, write: number): string {
  return JSON.stringify({ name, freed: { client, write } })
}

/** Undefined means free. An unreadable record counts as held: a torn file, a later format, or foreign data. */
export function decode(value: string): Held | undefined {
  const parsed = parse(value)
  if (parsed === undefined) return unreadable
  const { attemptId, owner, fence, ttlMs, lockDelayMs, since, keptUntil, write } = parsed
  const metadata = readMetadata(parsed['metadata'])
  if (attemptId === undefined) return isFreed(parsed['freed']) ? undefined : unreadable
  if (!isAttemptId(attemptId) || typeof owner !== 'string' || metadata === undefined) return unreadable
  if (!isLength(ttlMs) || !isLength(lockDelayMs) || !isLength(since) || !isLength(write)) return unreadable
  if (keptUntil !== undefined && !isLength(keptUntil)) return unreadable
  const kept = keptUntil === undefined ? {} : { keptUntil }
  const held = { attemptId, owner, metadata, ttlMs, lockDelayMs, since, ...kept, write }
  if (fence === undefined) return held
  return typeof fence === 'string' && /^\d{1,19}$/.test(fence)
    ? { ...held, fence: BigInt(fence) }
    : unreadable
}

function isFreed(freed: unknown): boolean {
  return isRecord(freed) && typeof freed['client'] === 'string' && isLength(freed['write'])
}

/** The name that a held record carries; undefined when it is free, or cannot be read. */
export function nameOfHeld(value: string): string | undefined {
  const held = decode(value)
  return held === undefined || held === unreadable ? undefined : nameIn(value)
}

/** The name in any record; undefined if it has none. */
export function nameIn(value: string): string | undefined {
  return parse(value)?.name
}

function parse(value: string): (Readonly<Record<string, unknown>> & { readonly name: string }) | undefined {
  try {
    const parsed: unknown = JSON.parse(value)
    return isRecord(parsed) && typeof parsed['name'] === 'string'
      ? { ...parsed, name: parsed['name'] }
      : undefined
  } catch {
    return undefined
  }
}

/** For people: never with the attempt id, which proves the hold to the store. */
export function holderOf({ owner, metadata, since }: Held, fence: bigint): Holder {
  return { owner, fence, metadata, since }
}

function isLength(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}
