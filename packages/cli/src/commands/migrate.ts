import { migrateStore } from '@locks/core/adapter'
import { backendOf, backendOptions } from '../backend.ts'
import type { Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'

export const migrate: Command = {
  usage: '[URL] [options]',
  about: `Makes the tables that PostgreSQL and MySQL need for locks, or brings those of an earlier version up to date. It may run at
any time, more than once, and from several places at once. Other stores need nothing, and nothing is done there. The
URL may be given as --url or LOCKS_URL too, which keeps a password out of the list of processes.`,
  options: backendOptions,
  examples: ['locks migrate postgres://app@db/app', 'LOCKS_URL=mysql://app:secret@db/app locks migrate'],

  async run(args, session) {
    const [url] = args.named('[URL]')
    const { config, store } = await backendOf(args, url ?? args.text('url'))
    const { adapter, migrated } = await migrateStore(config, store)
    if (args.flag('json')) session.printJson({ adapter, migrated })
    else session.print(migrated ? `${adapter}: the tables are ready` : `${adapter} needs no tables`)
    return exitCodes.ok
  },
}
