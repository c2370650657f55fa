import type { Adapter, AdapterHost, Capabilities, LockState, Renewal, RenewOutcome } from '@locks/core'
import { readHolder, UnderWay } from '@locks/sql'
import { diagnose } from './diagnose.ts'
import type { Cell } from './line.ts'
import type { Settings } from './options.ts'
import { bytesOf, runnerFor } from './runner.ts'
import { uniqueKeyStatements } from './sql.ts'

export interface UniqueKeyCapabilities extends Capabilities {
  readonly kind: 'lease'
  readonly fencing: 'durable'
  readonly wait: 'poll'
  readonly handover: true
  readonly lockDelay: true
  readonly list: true
  readonly break: true
}

const capabilities: UniqueKeyCapabilities = {
  scope: 'cluster',
  kind: 'lease',
  fencing: 'durable',
  wait: 'poll',
  fairness: 'none',
  handover: true,
  lockDelay: true,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 100,
  maxNameBytes: 1024,
}

/** Few enough that a batch takes a moment only, whoever else wants the rows. */
const BATCH = 500

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const sql = uniqueKeyStatements(settings.place)
  const runner = runnerFor(settings, clock)
  const underWay = new UnderWay()

  async function inspect(name: string): Promise<LockState> {
    const { rows } = await runner.run(sql.look, [Buffer.from(name)])
    return rows[0] === undefined ? { name, held: false } : stateOf(rows[0])
  }

  async function free(name: string, attemptId: string): Promise<boolean> {
    return (await runner.run(sql.free, [Buffer.from(name), attemptId])).affected > 0
  }

  async function renewBatch(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    const batch = textOf(renewals)
    await runner.run(sql.renew, [batch])
    // Whoever holds now holds for a fresh ttl: one that had expired before was not touched.
    const { rows } = await runner.run(sql.renewed, [batch])
    const renewed = new Set(rows.map(([attemptId]) => attemptId))
    return renewals.map(({ grant }) => (renewed.has(grant.attemptId) ? 'renewed' : 'lost'))
  }

  return {
    capabilities,
    inspect,

    async attempt(request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      const values = [Buffer.from(name), attemptId, bytesOf(request), ttlMs, ttlMs + lockDelayMs]
      const { insertId: fence } = await underWay.run(attemptId, () => runner.run(sql.take, values))
      if (fence > 0n) return { name, attemptId, fence, ttlMs }
      // It was taken when it was tried; by now it may be free.
      const { holder, remainingMs = 0 } = await inspect(name)
      return { busy: true, retryInMs: Math.max(1, Math.ceil(remainingMs)), ...(holder && { holder }) }
    },

    async withdraw({ name, attemptId }) {
      await underWay.after(attemptId, () => free(name, attemptId))
    },

    async renew(renewals) {
      const batches = inBatches(renewals)
      const settled = await Promise.allSettled(batches.map(renewBatch))
      const failed = settled.find((batch) => batch.status === 'rejected')
      if (failed !== undefined && batches.length === 1) throw failed.reason
      return settled.flatMap((batch, n) =>
        batch.status === 'fulfilled' ? batch.value : (batches[n] ?? []).map(() => 'unknown' as const),
      )
    },

    async release({ name, attemptId }) {
      if (await free(name, attemptId)) return 'released'
      return (await inspect(name)).held ? 'not-held' : 'released'
    },

    async adopt(from, request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      const next = [bytesOf(request), attemptId, ttlMs, ttlMs + lockDelayMs]
      const told = [Buffer.from(name), String(from.fence), from.attemptId, attemptId]
      const { insertId: fence } = await runner.run(sql.adopt, [...next, ...told])
      return fence === 0n ? 'lost' : { name, attemptId, fence, ttlMs }
    },

    async list(limit) {
      const { rows } = await runner.run(sql.list + String(limit))
      return rows.map(stateOf)
    },

    async break(name, { fence }) {
      if (fence === undefined) return 'not-held'
      const { affected } = await runner.run(sql.break, [Buffer.from(name), String(fence)])
      return affected > 0 ? 'broken' : 'not-held'
    },

    diagnose: () => diagnose(settings, runner, clock),

    close: () => runner.close(),
  }
}

function stateOf([name = '', fence, by, since, remaining]: readonly Cell[]): LockState {
  const holder = readHolder(by, fence, since)
  return { name, held: true, remainingMs: Math.max(0, Number(remaining)), ...(holder && { holder }) }
}

function inBatches<T>(all: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(all.length / BATCH)
  return Array.from({ length: count }, (_, n) => all.slice(n * BATCH, (n + 1) * BATCH))
}

/** Everything in hex: names are bytes, which JSON has not. In order, so that two batches do not lock crosswise. */
function textOf(renewals: readonly Renewal[]): string {
  const hex = (text: string): string => Buffer.from(text).toString('hex')
  const rows = renewals.map(
    ({ grant, ttlMs, lockDelayMs }) => [hex(grant.name), hex(grant.attemptId), ttlMs, lockDelayMs] as const,
  )
  return JSON.stringify(rows.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
