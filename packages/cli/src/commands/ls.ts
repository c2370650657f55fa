import type { LockState } from '@locks/core'
import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { showDuration } from '../duration.ts'
import { exitCodes } from '../exit-codes.ts'
import { age } from '../holder.ts'
import { printable, table } from '../output.ts'

const limits = [1, 1_000_000] as const

export const ls: Command = {
  usage: '[options]',
  about: 'Lists the locks that are held now, by whomever, where the store can name them. Changes nothing.',
  options: {
    limit: { takes: 'N', help: 'at most so many; default 1000' },
    ...backendOptions,
  },
  examples: ['locks ls --url redis://localhost', "locks ls --json | jq -r '.[].name'"],

  async run(args, session) {
    args.named()
    const limit = args.integer('limit', limits)
    const locks = await openBackend(session, await backendOf(args))
    const states = (await locks.list(limit === undefined ? {} : { limit })).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    )
    if (args.flag('json')) session.printJson(states)
    else if (states.length === 0) session.note('no lock is held')
    else {
      const rows = [
        ['NAME', 'HOLDER', 'PROCESS', 'HELD FOR', 'ENDS IN', 'FENCE', 'WAITING'],
        ...states.map(row),
      ]
      session.print(table(rows, (cell, _column, line) => (line === 0 ? session.paint('dim', cell) : cell)))
    }
    return exitCodes.ok
  },
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
