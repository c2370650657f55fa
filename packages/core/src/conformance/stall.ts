import { existsSync, writeFileSync } from 'node:fs'
import { isLockError } from '../adapter/lock-error.ts'
import type { LockErrorCode } from '../adapter/lock-error.ts'
import type { Lease, Locks } from '../api/contract.ts'
import type { LeaseState } from '../engine/hold.ts'
import { block } from './time/heartbeat.ts'

/** Longer than anything another process does, even on a busy machine. */
const MOST_MS = 60_000
const LOOK_MS = 10

export interface StallOptions {
  readonly lock: string
  /** How the hold ends. */
  readonly by: 'release' | 'with'
  /** The process writes this file and then blocks its event loop, until there is a second one. */
  readonly blocked: string
  readonly goOn: string
  /** At least this long. */
  readonly forMs: number
}

/** The outcome of a call: the code of its `LockError`, or `ok`. */
export type Outcome = LockErrorCode | 'ok'

export interface Stalled {
  /** Read before the event loop ran again. */
  readonly state: LeaseState
  readonly remainingMs: number
  readonly assertHeld: Outcome
  /** The outcome of `release` or `with`. */
  readonly end: Outcome
}

/** Holds a lock while the event loop is blocked, and reports the state of the lease afterwards. */
export async function stall(locks: Locks, options: StallOptions): Promise<Stalled> {
  const { lock, by } = options
  let seen: Omit<Stalled, 'end'> | undefined
  const body = async (lease: Lease): Promise<void> => {
    stand(options)
    const { state, remainingMs } = lease
    seen = { state, remainingMs, assertHeld: await outcomeOf(async () => lease.assertHeld()) }
  }
  const end = await outcomeOf(async () => {
    if (by === 'with') return locks.with(lock, body)
    const lease = await locks.lock(lock).acquire()
    await body(lease)
    await lease.release()
  })
  if (seen === undefined) throw new Error(`nothing was held: ${end}`)
  return { ...seen, end }
}

function stand({ blocked, goOn, forMs }: StallOptions): void {
  writeFileSync(blocked, '')
  const since = performance.now()
  for (let ms = 0; ms < forMs || !existsSync(goOn); ms = performance.now() - since) {
    if (ms > MOST_MS) throw new Error(`blocked for ${MOST_MS} ms`)
    block(LOOK_MS)
  }
}

async function outcomeOf(work: () => Promise<void>): Promise<Outcome> {
  try {
    await work()
    return 'ok'
  } catch (error) {
    if (isLockError(error)) return error.code
    throw error
  }
}
