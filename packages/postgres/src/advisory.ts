import { capabilities } from '@locks/core/adapter'
import type { Adapter, AdapterHost, CapabilitiesOf } from '@locks/core/adapter'
import { ConnectionPool, PRUNE_BATCH, sessionAdapter } from '@locks/sql'
import { advisoryDriver } from './advisory-driver.ts'
import { Carriers } from './carriers.ts'
import { PostgresConnection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { holderTable } from './holders.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { runnerFor } from './runner.ts'
import { Share } from './share.ts'
import { bytesOf, namesOf, statement } from './sql.ts'
import { strategyRecord } from './strategy.ts'
import { tableCreation } from './tables.ts'
import { keepingTables, unfencedHolders, unfencedRecord } from './unfenced.ts'

// `break` is missing: only the end of its connection frees the lock of another session, and that ends other holds too.
const given = { kind: 'connection', wait: 'handoff', fairness: 'fifo' } as const

export type AdvisoryCapabilities = CapabilitiesOf<
  typeof given & { readonly fencing: 'durable' | 'none'; readonly list: boolean }
>

export function advisoryAdapter(settings: Settings, host: AdapterHost): Adapter<AdvisoryCapabilities> {
  const { config, maxConnections, sessionTtlMs, fenceIdleMs, errors, fencing } = settings
  const { clock } = host
  const runner = runnerFor(settings, clock)
  const direct = refusingPoolers((closing) => PostgresConnection.open(config, { pipeline: true, closing }))
  const open = fencing ? direct : keepingTables(settings, direct)
  const pool = new ConnectionPool({ open, max: maxConnections, clock, errors })
  const carriers = new Carriers(pool, clock)
  const holders = fencing ? holderTable(settings, runner) : unfencedHolders(settings, runner)
  const prune = statement(`SELECT $4::text, ${namesOf(settings).pruneRows}($1, $2, $3)`)
  const adapter: Adapter<AdvisoryCapabilities> = sessionAdapter(
    {
      name: '@locks/postgres',
      capabilities: capabilities({ ...given, fencing: fencing ? 'durable' : 'none', list: fencing }),
      strategy: 'advisory',
      record: fencing ? strategyRecord(settings, runner) : unfencedRecord(settings, runner),
      creation: fencing ? tableCreation(settings) : undefined,
      driver: advisoryDriver(settings, carriers, holders, clock),
      connections: new ConnectionPool({
        open: () => Promise.resolve(new Share(carriers)),
        max: Number.MAX_SAFE_INTEGER,
        clock,
        errors,
      }),
      errors,
      sessionTtlMs,
      fenceIdleMs,
      diagnose: () => diagnose(settings, clock),

      async prune(idleMs, names) {
        if (!fencing) return { pruned: 0, more: false }
        const [[count]] = await runner.ask(prune, [idleMs, PRUNE_BATCH, bytesOf(names)])
        const pruned = Number(count)
        return { pruned, more: pruned === PRUNE_BATCH }
      },

      async close() {
        carriers.close()
        await Promise.all([pool.close(), runner.close()])
      },
    },
    host,
  )
  // Without fences nothing says which names are held.
  return without(adapter, fencing ? ['break'] : ['break', 'list'])
}

function without<A extends object>(adapter: A, left: readonly string[]): A {
  const kept: A = { ...adapter }
  for (const method of left) Reflect.deleteProperty(kept, method)
  return kept
}
