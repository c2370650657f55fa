import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'
import { stateRows } from '../holder.ts'
import { table } from '../output.ts'

export const inspect: Command = {
  usage: 'NAME [options]',
  about:
    'Shows whether the lock NAME is held, its holder, since when, and how long remains. Changes nothing.',
  options: backendOptions,
  examples: [
    'locks inspect nightly-report --url redis://localhost',
    "locks inspect nightly-report --json | jq -r '.holder.fence'",
  ],

  async run(args, invocation) {
    const [name = ''] = args.named('NAME')
    const locks = await openBackend(invocation, await backendOf(args))
    const state = await locks.inspect(name)
    if (args.flag('json')) invocation.printJson(state)
    else
      invocation.print(
        table(stateRows(state), (cell, column) =>
          column === 0
            ? invocation.paint('dim', cell)
            : cell === 'held'
              ? invocation.paint('yellow', cell)
              : cell,
        ),
      )
    return exitCodes.ok
  },
}
