import { setTimeout as pass } from 'node:timers/promises'
import type { Locks, LockState } from '@locks/core'
import { isLockError } from '@locks/core'
import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { showDuration } from '../duration.ts'
import { UsageError } from '../errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { age, describeHolder } from '../holder.ts'
import { printable, table, toJson } from '../output.ts'
import type { Invocation } from '../invocation.ts'

const limits = [1, 1_000_000] as const
const pauses = ['100ms', '1h'] as const

/** Cursor to the top left, and nothing below it. */
const CLEAR = '\x1b[H\x1b[J'

export const ls: Command = {
  usage: '[options]',
  about: `Lists the locks that are held now, if the store supports it. Changes nothing. With --watch it repeats until
Ctrl-C: a terminal shows the latest list; other output gets a new list whenever a holder or waiter changes, with
--json one line per list.`,
  options: {
    limit: { takes: 'N', help: 'list at most N locks; default 1000' },
    waiters: { help: 'also list the waiters of each lock, if the store knows them' },
    watch: { help: 'repeat until Ctrl-C' },
    every: { takes: 'TIME', help: 'with --watch: the interval; default 2s' },
    ...backendOptions,
  },
  examples: [
    'locks ls --url redis://localhost',
    'locks ls --waiters --watch',
    "locks ls --json | jq -r '.[].name'",
  ],

  async run(args, invocation) {
    args.named()
    const limit = args.integer('limit', limits)
    const everyMs = args.durationMs('every', pauses)
    if (everyMs !== undefined && !args.flag('watch')) throw new UsageError('--every needs --watch')
    const locks = await openBackend(invocation, await backendOf(args))
    const [json, waiters] = [args.flag('json'), args.flag('waiters')]
    const look = (): Promise<readonly LockState[]> => held(locks, limit, waiters)
    if (args.flag('watch')) return watch(look, invocation, json, everyMs ?? 2_000)
    const states = await look()
    if (json) invocation.printJson(states)
    else if (states.length === 0) invocation.note('no lock is held')
    else invocation.print(tableOf(states, invocation))
    return exitCodes.ok
  },
}

async function held(
  locks: Locks,
  limit: number | undefined,
  waiters: boolean,
): Promise<readonly LockState[]> {
  const states = await locks.list(limit === undefined ? {} : { limit })
  const sorted = states.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  if (!waiters) return sorted.map((state) => without(state, 'waiting'))
  // Some stores report waiters only in `inspect`. A lock that was released in the meantime is left out.
  const looked: LockState[] = []
  for (const state of sorted) looked.push(state.waiters === 0 ? state : await locks.inspect(state.name))
  return looked.filter((state) => state.held)
}

/** Ends with a signal. An outage after the first list is reported once, and watching continues. */
async function watch(
  look: () => Promise<readonly LockState[]>,
  invocation: Invocation,
  json: boolean,
  everyMs: number,
): Promise<never> {
  const redraws = process.stdout.isTTY && !json
  let [before, out]: [string | undefined, boolean] = [undefined, false]
  for (;;) {
    try {
      const states = await look()
      out = false
      // The remaining time always changes, so it does not count as a change.
      const now = toJson(states.map((state) => without(state, 'remainingMs')))
      if (redraws) invocation.print(CLEAR + textOf(states, invocation))
      else if (now !== before) invocation.print(json ? toJson(states) : `${textOf(states, invocation)}\n`)
      before = now
    } catch (error) {
      if (before === undefined || !isLockError(error, 'LOCK_UNAVAILABLE')) throw error
      if (!out) invocation.note(`locks: ${printable(error.message)}; still watching`)
      out = true
    }
    await pass(everyMs, undefined, { signal: invocation.signal })
  }
}

function without(state: LockState, key: keyof LockState): LockState {
  const copy = { ...state }
  delete copy[key]
  return copy
}

function textOf(states: readonly LockState[], invocation: Invocation): string {
  return states.length === 0 ? 'no lock is held' : tableOf(states, invocation)
}

function tableOf(states: readonly LockState[], invocation: Invocation): string {
  const rows = [
    ['NAME', 'HOLDER', 'PROCESS', 'HELD FOR', 'ENDS IN', 'FENCE', 'WAITING'],
    ...states.flatMap((state) => [row(state), ...(state.waiting ?? []).map(waiterRow)]),
  ]
  return table(rows, (cell, _column, line) => (line === 0 ? invocation.paint('dim', cell) : cell))
}

/** Shown below the lock. */
function waiterRow(waiter: NonNullable<LockState['waiting']>[number]): string[] {
  return ['', `  waits: ${describeHolder(waiter)}`, '', '', '', '', '']
}

function row({ name, holder, remainingMs, waiters }: LockState): string[] {
  const process = holder?.metadata
  return [
    name,
    process?.label ?? holder?.owner ?? '',
    process === undefined ? '' : `${process.pid}@${process.host}`,
    holder?.since === undefined ? '' : age(holder.since),
    remainingMs === undefined ? '' : showDuration(remainingMs),
    holder?.fence?.toString() ?? '',
    waiters?.toString() ?? '',
  ].map((cell) => printable(cell))
}
