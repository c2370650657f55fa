import type { Holder, LockState, Waiter } from '@locks/core'
import { showDuration } from './duration.ts'
import { printable } from './output.ts'

/** The holder of a lock, in one line. */
export function describeHolder({
  owner,
  metadata,
  fence,
  since,
}: Holder | (Waiter & { readonly fence?: never })): string {
  const who = metadata?.label ?? owner
  const where = metadata === undefined ? [] : [`pid ${metadata.pid} on ${metadata.host}`]
  const long = since === undefined ? [] : [`for ${age(since)}`]
  const under = fence === undefined ? [] : [`fence ${fence}`]
  const details = [...where, ...long, ...under].join(', ')
  return printable(details === '' ? who : `${who} (${details})`)
}

/** The state of a lock, as rows for people. */
export function stateRows({
  name,
  held,
  holder,
  remainingMs,
  waiters,
  waiting = [],
}: LockState): [string, string][] {
  const rows: [string, string | undefined][] = [
    ['lock', name],
    ['state', held ? 'held' : 'free'],
    ['label', holder?.metadata?.label],
    ['process', holder?.metadata && `pid ${holder.metadata.pid} on ${holder.metadata.host}`],
    ['owner', holder?.owner],
    ['fence', holder?.fence?.toString()],
    ['held for', holder?.since === undefined ? undefined : age(holder.since)],
    ['ends in', remainingMs === undefined ? undefined : `${showDuration(remainingMs)} unless renewed`],
    ['waiting', waiters?.toString()],
    ...waiting.map((waiter, n): [string, string] => [n === 0 ? 'next' : '', describeHolder(waiter)]),
  ]
  return rows.flatMap(([key, value]) => (value === undefined ? [] : [[key, printable(value)]]))
}

/** Clamped at zero, since two clocks may differ a little. */
export function age(since: number): string {
  return showDuration(Math.max(0, Date.now() - since))
}
