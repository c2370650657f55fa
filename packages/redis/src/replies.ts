import type { Holder, RenewOutcome, Waiter } from '@locks/core/adapter'
import { holderOf } from './holder.ts'

/** What Redis says to an attempt that does not get the lock. */
export interface Refusal {
  readonly busy: true
  /** Which attempt holds the lock, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  /** The holder is Redisson's, so that its release is told on Redisson's channel only. */
  readonly foreign: boolean
  readonly leftMs: number
  /** How many wait before this attempt, -1 when it is not in the queue. */
  readonly place: number
  /** The server's time in µs. */
  readonly serverTime: number
}

/** What Redis knows about a name. */
export interface Look {
  /** Which attempt holds it, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  readonly leftMs: number
  readonly waiters: number
  /** The first of them. */
  readonly waiting: readonly Waiter[]
}

export function answerOf(reply: unknown): bigint | Refusal {
  if (typeof reply === 'string') return BigInt(reply)
  const [leftMs, place, serverTime, ...fields] = listOf(reply)
  const { attempt, holder, foreign } = holderOf(fields)
  return {
    busy: true,
    attempt,
    holder,
    foreign,
    leftMs: leftOf(leftMs),
    place: Number(place),
    serverTime: Number(serverTime),
  }
}

/** What PTTL said: a key without a ttl, which no lock has, stays forever. */
export function leftOf(reply: unknown): number {
  const leftMs = Number(reply)
  return leftMs === -1 ? Number.MAX_SAFE_INTEGER : Math.max(0, leftMs)
}

export function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}

/** A given client may be configured to return numbers as strings. */
export function isOne(reply: unknown): boolean {
  return Number(reply) === 1
}

export function outcomeOf(reply: unknown): RenewOutcome {
  return isOne(reply) ? 'renewed' : Number(reply) === 0 ? 'lost' : 'unknown'
}
