import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'

const limits = ['0ms', '8760h'] as const

export const prune: Command = {
  usage: '[URL] [options]',
  about: `Drops what a backend keeps of idle names. Clients do this in the background after their releases; this
command does it at once. Locks can be used meanwhile. A name that is used again still gets a higher fence than every
earlier one.`,
  options: {
    idle: { takes: 'DURATION', help: 'drop names that were not used for this long; default 24h' },
    ...backendOptions,
  },
  examples: ['locks prune redis://localhost', 'locks prune file:/var/lock/app --idle 1h'],

  async run(args, invocation) {
    const [url] = args.named('[URL]')
    const idleMs = args.durationMs('idle', limits)
    const locks = await openBackend(invocation, await backendOf(args, url))
    const pruned = await locks.prune(idleMs === undefined ? {} : { idleMs })
    if (args.flag('json')) invocation.printJson({ pruned })
    else invocation.print(`${pruned} ${pruned === 1 ? 'name' : 'names'} pruned`)
    return exitCodes.ok
  },
}
