import { migrateStore } from '@locks/core/adapter'
import { backendOf, backendOptions } from '../backend.ts'
import type { Command } from '../command.ts'
import { exitCodes } from '../exit-codes.ts'

export const migrate: Command = {
  usage: '[URL] [options]',
  about: `Creates the tables that PostgreSQL and MySQL need for locks, or updates those of an earlier version. It may
run at any time, repeatedly and concurrently. For other stores it does nothing. Set LOCKS_URL instead of passing the
URL to keep a password out of the process list.`,
  options: backendOptions,
  examples: ['locks migrate postgres://app@db/app', 'LOCKS_URL=mysql://app:secret@db/app locks migrate'],

  async run(args, invocation) {
    const [url] = args.named('[URL]')
    const { config, store } = await backendOf(args, url ?? args.text('url'))
    const { adapter, migrated } = await migrateStore(config, store)
    if (args.flag('json')) invocation.printJson({ adapter, migrated })
    else invocation.print(migrated ? `${adapter}: the tables are ready` : `${adapter} needs no tables`)
    return exitCodes.ok
  },
}
