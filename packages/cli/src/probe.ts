import { isLockError } from '@locks/core'
import type { Finding, Lease, Locks } from '@locks/core'
import { showDuration } from './duration.ts'
import { percentile, timed } from './statistics.ts'

/**
 * Always the same: what a store keeps of a name that is free, such as its fence, is so kept once. A
 * path, since in some stores nothing else is a name.
 */
const PROBE = '/locks-doctor-probe'
const ROUNDS = 15
const SLOW_MS = 100
const OFFSET_MS = 1_000

export interface Probed {
  readonly findings: readonly Finding[]
  /** Medians; absent when it did not come so far. */
  readonly roundTripMs?: { readonly inspect: number; readonly acquire: number; readonly renew: number }
}

/** What any backend can be asked by using it: a lock is looked at, taken, renewed and given back. */
export async function probe(locks: Locks, signal: AbortSignal): Promise<Probed> {
  const lock = locks.lock(PROBE)
  const findings: Finding[] = [scope(locks)]
  try {
    await lock.inspect()
    findings.push({ check: 'reachable', level: 'ok', message: 'the store answers' })
  } catch (error) {
    const advice =
      'check address, credentials, what that user may do, and that the server runs and lets this host in'
    return { findings: [...findings, failed('reachable', error, advice)] }
  }
  try {
    const acquire: number[] = []
    const renew: number[] = []
    const inspect: number[] = []
    let offset: number | undefined
    for (let round = 0; round < ROUNDS; round += 1) {
      let lease: Lease | undefined
      const before = Date.now()
      acquire.push(await timed(async () => (lease = await lock.acquire({ waitMs: 5_000, signal }))))
      renew.push(await timed(async () => lease?.extend()))
      inspect.push(
        await timed(async () => {
          const since = (await lock.inspect()).holder?.since
          if (since !== undefined) offset ??= offsetOf(since, before, Date.now())
        }),
      )
      await lease?.release()
    }
    findings.push({ check: 'permissions', level: 'ok', message: 'a lock was taken, renewed and given back' })
    const roundTripMs = { inspect: median(inspect), acquire: median(acquire), renew: median(renew) }
    findings.push(roundTrip(roundTripMs))
    if (offset !== undefined) findings.push(clock(offset))
    return { findings, roundTripMs }
  } catch (error) {
    signal.throwIfAborted()
    if (isLockError(error, 'LOCK_TIMEOUT'))
      return {
        findings: [
          ...findings,
          {
            check: 'permissions',
            level: 'warning',
            message: `the lock ${PROBE} is held by somebody else`,
            advice: 'is another doctor at work? Otherwise look at it with locks inspect',
          },
        ],
      }
    const advice = 'give the user of this backend what its adapter needs; see the README of the adapter'
    return { findings: [...findings, failed('permissions', error, advice)] }
  }
}

function scope({ capabilities }: Locks): Finding {
  const check = 'scope'
  if (capabilities.scope === 'cluster')
    return { check, level: 'ok', message: 'excludes everyone who reaches the store' }
  if (capabilities.scope === 'host')
    return { check, level: 'ok', message: 'excludes processes of this host, and not those of others' }
  const advice = 'use it for tests and programs that run once; anything else needs another backend'
  return { check, level: 'warning', message: 'excludes tasks of one process only', advice }
}

/** One that refuses by itself, for want of a table perhaps, is neither away nor forbidden. */
function failed(check: string, error: unknown, advice: string): Finding {
  const message = error instanceof Error ? error.message.replaceAll(/\s+/g, ' ') : 'unknown error'
  if (!isLockError(error, 'LOCK_UNSUPPORTED') && !isLockError(error, 'LOCK_INVALID_ARGUMENT'))
    return { check, level: 'danger', message, advice }
  const change = 'change what the message and the other findings say; the README of the adapter tells more'
  return { check: 'usable', level: 'danger', message, advice: change }
}

function median(values: readonly number[]): number {
  return Number(percentile(values, 0.5).toFixed(3))
}

function roundTrip({
  inspect,
  acquire,
  renew,
}: {
  inspect: number
  acquire: number
  renew: number
}): Finding {
  const message = `median of ${ROUNDS}: acquire ${showDuration(acquire)}, renew ${showDuration(renew)}, inspect ${showDuration(inspect)}`
  if (Math.max(acquire, renew) < SLOW_MS) return { check: 'timing', level: 'ok', message }
  const advice = 'use a store nearer by, or give leases and waits that much more time'
  return { check: 'timing', level: 'warning', message, advice }
}

/** How far the store's clock is ahead of ours, given that it read `since` between these two moments. */
function offsetOf(since: number, from: number, until: number): number {
  return since < from ? since - from : since > until ? since - until : 0
}

function clock(offset: number): Finding {
  const apart = `${showDuration(Math.abs(offset))} ${offset < 0 ? 'behind' : 'ahead of'} ours`
  if (Math.abs(offset) < OFFSET_MS)
    return { check: 'clock', level: 'ok', message: "the store's clock agrees with ours" }
  return {
    check: 'clock',
    level: 'warning',
    message: `the store's clock is ${apart}`,
    advice:
      'synchronise both by NTP: leases do not compare clocks, but clock-assisted fences follow that of the store',
  }
}
