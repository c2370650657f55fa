import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'

const limits = ['0ms', '8760h'] as const

export const prune: Command = {
  usage: '[URL] [options]',
  about: `Drops what a backend keeps of names that are free and were not used for a while. Clients do that by
themselves, behind their releases; this is for those who do not want to wait for it. Locks may be used meanwhile, and the fences
of a name that comes back are still higher than every earlier one.`,
  options: {
    idle: { takes: 'DURATION', help: 'names that were not used for so long; default 24h' },
    ...backendOptions,
  },
  examples: ['locks prune redis://localhost', 'locks prune file:/var/lock/app --idle 1h'],

  async run(args, session) {
    const [url] = args.named('[URL]')
    const idleMs = args.durationMs('idle', limits)
    const locks = await openBackend(session, await backendOf(args, url))
    const pruned = await locks.prune(idleMs === undefined ? {} : { idleMs })
    if (args.flag('json')) session.printJson({ pruned })
    else session.print(`${pruned} ${pruned === 1 ? 'name' : 'names'} pruned`)
    return exitCodes.ok
  },
}
