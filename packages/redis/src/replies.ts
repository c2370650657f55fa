import type { Holder, RenewOutcome, Waiter } from '@locks/core/adapter'
import { holderOf } from './holder.ts'

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

/** From the reply of PTTL: a key without a ttl, which no lock has, stays forever. */
export function remainingOf(reply: unknown): number {
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
