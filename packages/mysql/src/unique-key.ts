import type { AcquireRequest, Adapter, AdapterHost, Busy, Capabilities, Grant, LockState } from '@locks/core'
import { errnoOf } from './errors.ts'
import { readHolder, writeHolder } from './holder.ts'
import type { Settings } from './options.ts'
import { runnerFor } from './runner.ts'
import { uniqueKeyStatements } from './sql.ts'

export interface UniqueKeyCapabilities extends Capabilities {
  readonly kind: 'lease'
  readonly fencing: 'durable'
  readonly wait: 'poll'
  readonly handover: true
  readonly lockDelay: true
}

const capabilities: UniqueKeyCapabilities = {
  scope: 'cluster',
  kind: 'lease',
  fencing: 'durable',
  wait: 'poll',
  fairness: 'none',
  handover: true,
  lockDelay: true,
  list: false,
  break: false,
  modes: ['exclusive'],
  minTtlMs: 100,
  maxNameBytes: 1024,
}

const DUPLICATE = 1062

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const sql = uniqueKeyStatements(settings.place)
  const runner = runnerFor(settings, clock)

  /** Takes a name that is free, expired or ours already; 0 when it is neither, or never was. */
  async function take({ name, attemptId, ttlMs, lockDelayMs, ...about }: AcquireRequest): Promise<bigint> {
    const values = [attemptId, attemptId, writeHolder(about), attemptId, ttlMs, ttlMs + lockDelayMs]
    return (await runner.run(sql.take, [...values, Buffer.from(name), attemptId])).insertId
  }

  async function make({ name, attemptId, ttlMs, lockDelayMs, ...about }: AcquireRequest): Promise<bigint> {
    const values = [Buffer.from(name), attemptId, writeHolder(about), ttlMs, ttlMs + lockDelayMs]
    try {
      return (await runner.run(sql.make, values)).insertId
    } catch (error) {
      // Somebody else was faster.
      if (errnoOf(error) === DUPLICATE) return 0n
      throw error
    }
  }

  async function look(
    name: string,
  ): Promise<LockState & { readonly attemptId?: string; readonly known: boolean }> {
    const { rows } = await runner.run(sql.look, [Buffer.from(name)])
    const [attemptId, fence, holder, since, remaining, blocked] = rows[0] ?? []
    const known = rows.length > 0
    if (attemptId === undefined || blocked !== '1') return { name, held: false, known }
    const by = readHolder(holder, fence, since)
    const remainingMs = Math.max(0, Number(remaining))
    return { name, held: true, known, attemptId, remainingMs, ...(by && { holder: by }) }
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const { name, attemptId, ttlMs } = request
    for (;;) {
      const fence = await take(request)
      if (fence > 0n) return { name, attemptId, fence, ttlMs }
      const { held, holder, remainingMs = 0, known } = await look(name)
      if (held)
        return { busy: true, retryInMs: Math.max(1, Math.ceil(remainingMs)), ...(holder && { holder }) }
      if (known) continue
      const made = await make(request)
      if (made > 0n) return { name, attemptId, fence: made, ttlMs }
    }
  }

  async function free(name: string, attemptId: string): Promise<boolean> {
    return (await runner.run(sql.free, [Buffer.from(name), attemptId])).affected > 0
  }

  return {
    capabilities,
    attempt,

    async withdraw({ name, attemptId }) {
      await free(name, attemptId)
    },

    async renew(renewals) {
      const hex = (text: string): string => Buffer.from(text).toString('hex')
      const batch = JSON.stringify(
        renewals.map(({ grant, ttlMs, lockDelayMs }) => [
          hex(grant.name),
          hex(grant.attemptId),
          ttlMs,
          lockDelayMs,
        ]),
      )
      await runner.run(sql.renew, [batch])
      // Whoever holds now holds for a fresh ttl: one that had expired before was not touched.
      const { rows } = await runner.run(sql.renewed, [batch])
      const renewed = new Set(rows.map(([attemptId]) => attemptId))
      return renewals.map(({ grant }) => (renewed.has(grant.attemptId) ? 'renewed' : 'lost'))
    },

    async release({ name, attemptId }) {
      if (await free(name, attemptId)) return 'released'
      return (await look(name)).held ? 'not-held' : 'released'
    },

    async adopt(from, request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      const values = [writeHolder(request), attemptId, ttlMs, ttlMs + lockDelayMs, Buffer.from(name)]
      const { insertId: fence } = await runner.run(sql.adopt, [...values, from.attemptId, attemptId])
      return fence === 0n ? 'lost' : { name, attemptId, fence, ttlMs }
    },

    async inspect(name) {
      const { held, holder, remainingMs } = await look(name)
      if (!held) return { name, held }
      return { name, held, ...(holder && { holder }), ...(remainingMs !== undefined && { remainingMs }) }
    },

    close: () => runner.close(),
  }
}
