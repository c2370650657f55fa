import { isLockError } from '@locks/core'
import type { Finding, Lease, Locks } from '@locks/core'
import { showDuration } from './duration.ts'
import { percentile, timed } from './statistics.ts'

/**
 * Always the same name, since a store may keep the fence of a free name. A path, since some stores accept
 * nothing else.
 */
const PROBE = '/locks-doctor-probe'
const ROUNDS = 15
const SLOW_MS = 100
const OFFSET_MS = 1_000

export interface Probed {
  readonly findings: readonly Finding[]
  /** Medians; absent if the probe failed earlier. */
  readonly roundTripMs?: { readonly inspect: number; readonly acquire: number; readonly renew: number }
}

/** Checks a backend by using it: inspects, acquires, renews and releases a lock. */
export async function probe(locks: Locks, signal: AbortSignal): Promise<Probed> {
  const lock = locks.lock(PROBE)
  const findings: Finding[] = [scope(locks)]
  try {
    await lock.inspect()
    findings.push({ check: 'reachable', level: 'ok', message: 'the store answers' })
  } catch (error) {
    const advice =
      'check the address, the credentials, the permissions of the user, and that the server runs and accepts this host'
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
    findings.push({ check: 'permissions', level: 'ok', message: 'a lock was acquired, renewed and released' })
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
            message: `the lock ${PROBE} is held by another client`,
            advice: 'another doctor may be running; otherwise check it with locks inspect',
          },
        ],
      }
    const advice = 'grant the user of this backend the permissions in the README of its adapter'
    return { findings: [...findings, failed('permissions', error, advice)] }
  }
}

function scope({ capabilities }: Locks): Finding {
  const check = 'scope'
  if (capabilities.scope === 'cluster')
    return { check, level: 'ok', message: 'excludes all clients of the store' }
  if (capabilities.scope === 'host')
    return { check, level: 'ok', message: 'excludes processes of this host, but not those of other hosts' }
  const advice = 'use it for tests and single-process programs only; anything else needs another backend'
  return { check, level: 'warning', message: 'excludes only tasks of one process', advice }
}

/** A store that refuses the call, for example because a table is missing, is neither unreachable nor forbidden. */
function failed(check: string, error: unknown, advice: string): Finding {
  const message = error instanceof Error ? error.message.replaceAll(/\s+/g, ' ') : 'unknown error'
  if (!isLockError(error, 'LOCK_UNSUPPORTED') && !isLockError(error, 'LOCK_INVALID_ARGUMENT'))
    return { check, level: 'danger', message, advice }
  const change = 'fix what the message and the other findings say; see the README of the adapter'
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
  const shown = [
    `acquire ${showDuration(acquire)}`,
    `renew ${showDuration(renew)}`,
    `inspect ${showDuration(inspect)}`,
  ]
  const message = `median of ${ROUNDS}: ${shown.join(', ')}`
  if (Math.max(acquire, renew) < SLOW_MS) return { check: 'timing', level: 'ok', message }
  const advice = 'use a store that is closer, or longer leases and waits'
  return { check: 'timing', level: 'warning', message, advice }
}

/** How far the store's clock is ahead of ours, given that it read `since` between these two moments. */
function offsetOf(since: number, from: number, until: number): number {
  return since < from ? since - from : since > until ? since - until : 0
}

function clock(offset: number): Finding {
  const apart = `${showDuration(Math.abs(offset))} ${offset < 0 ? 'behind' : 'ahead of'} this machine's`
  if (Math.abs(offset) < OFFSET_MS)
    return { check: 'clock', level: 'ok', message: "the store's clock agrees with this machine's" }
  return {
    check: 'clock',
    level: 'warning',
    message: `the store's clock is ${apart}`,
    advice:
      'synchronise both with NTP: leases do not compare clocks, but clock-assisted fences use the clock of the store',
  }
}
