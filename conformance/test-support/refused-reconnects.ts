import { isLockError } from '@locks/core'
import type { Lease, Locks } from '@locks/core'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'
import { atLength } from '../selection.ts'
import { redisConversation } from '../services/index.ts'
import type { Address } from '../services/index.ts'

/** How many rounds a test does. `LOCKS_REFUSED_ROUNDS=2000` for a long run. */
export const refusedRounds = Number(process.env['LOCKS_REFUSED_ROUNDS'] ?? atLength(20, 200))

/** For a test of that many rounds, each of which may have to wait for reconnects. */
export const refusedRoundsMs: number = 30_000 + refusedRounds * 1_500

/** Reconnects are refused for up to this long. */
const REFUSED_MS = 100

export interface RefusedClients {
  /** Holds a name. */
  readonly holder: Locks
  /** Tries that name and a free one while it cannot connect. */
  readonly other: Locks
  /** The servers that keep locks. */
  readonly servers: readonly Address[]
  /** In front of names, so that all of them use the same connection. */
  readonly prefix?: string
}

export interface Refusals {
  /** The held name was granted to the other client. */
  readonly doubleGrants: number
  /** The free name was called busy. */
  readonly falselyBusy: number
  /** Rounds in which both tries were answered. The others show nothing. */
  readonly answered: number
}

/**
 * One client holds a name. All connections are cut, and `maxclients` refuses new ones for a moment; meanwhile the other
 * client tries a free name and the held one at once.
 */
export async function refuseReconnects(clients: RefusedClients, rounds: number): Promise<Refusals> {
  const { holder, other, servers, prefix = '' } = clients
  await other.with(`${prefix}warm-up:${randomUUID()}`, () => undefined)
  let [doubleGrants, falselyBusy, answered] = [0, 0, 0]
  for (let round = 0; round < rounds; round += 1) {
    const [held, free] = [`${prefix}held:${randomUUID()}`, `${prefix}free:${randomUUID()}`]
    const lease = await holder.lock(held).acquire({ ttlMs: 60_000 })
    const refused = await Promise.all(servers.map((server) => refuse(server, Math.random() * REFUSED_MS)))
    await pause(Math.random() * REFUSED_MS)
    const tries = [other.lock(free).tryAcquire(), other.lock(held).tryAcquire()]
    const [mine, theirs] = await Promise.all(tries.map(unlessUnavailable))
    await Promise.all(refused.map(({ over }) => over))
    if (theirs !== null && theirs !== undefined) doubleGrants += 1
    if (mine === null) falselyBusy += 1
    if (mine !== undefined && theirs !== undefined) answered += 1
    await mine?.release()
    await lease.release()
  }
  return { doubleGrants, falselyBusy, answered }
}

/** Neither a second holder nor a false refusal, in rounds of which at least half show something. */
export function expectNothingMixedUp(
  { doubleGrants, falselyBusy, answered }: Refusals,
  rounds: number = refusedRounds,
): void {
  expect({ doubleGrants, falselyBusy }).toEqual({ doubleGrants: 0, falselyBusy: 0 })
  expect(answered).toBeGreaterThanOrEqual(rounds / 2)
}

/** Cuts every connection to a server, and lets nobody connect for `ms`. Resolves once they are cut. */
async function refuse(server: Address, ms: number): Promise<{ readonly over: Promise<void> }> {
  let over: Promise<void> | undefined
  await new Promise<void>((resolve, reject) => {
    over = redisConversation(server, async (ask) => {
      const before = await ask('CONFIG', 'GET', 'maxclients')
      await ask('CONFIG', 'SET', 'maxclients', 1)
      await ask('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      resolve()
      await pause(ms)
      await ask('CONFIG', 'SET', 'maxclients', Array.isArray(before) ? String(before[1]) : 10_000)
    })
    over.catch(reject)
  })
  return { over: over ?? Promise.resolve() }
}

/** Undefined when the store could not be reached: then nothing is known. */
async function unlessUnavailable(answer: Promise<Lease | null>): Promise<Lease | null | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isLockError(error, 'LOCK_UNAVAILABLE')) return undefined
    throw error
  }
}
