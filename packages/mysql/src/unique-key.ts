import { capabilities, isAttemptId, keptAttemptId } from '@locks/core/adapter'
import type { Adapter, AdapterHost, CapabilitiesOf, LockState } from '@locks/core/adapter'
import { SPARE_CONNECTIONS, stateFrom, tableAdapter, unqueued } from '@locks/sql'
import type { Values } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { MAX_FENCE, newEcho, numberIn, surelyWrote, wrote } from './echo.ts'
import type { Settings } from './options.ts'
import { pruneCounters } from './prune.ts'
import { renewer } from './renewals.ts'
import { bytesOf, runnerFor } from './runner.ts'
import type { Runner } from './runner.ts'
import { uniqueKeyStatements } from './sql.ts'
import { strategyRecord } from './strategy.ts'

const given = { handover: true, lockDelay: true, minHold: true, list: true, break: true } as const
export type UniqueKeyCapabilities = CapabilitiesOf<typeof given>

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const sql = uniqueKeyStatements(settings.place)
  const runner = runnerFor(settings, clock)
  const spare = runnerFor({ ...settings, pool: undefined, poolSize: SPARE_CONNECTIONS }, clock)
  const urgently = <T>(work: (on: Runner) => Promise<T>): Promise<T> => unqueued(runner, spare, work)

  async function held(text: string, values?: Values): Promise<readonly LockState[]> {
    const rows = await runner.look(text, values)
    return rows.flatMap(([name, ...row]) => (name === undefined ? [] : [stateFrom(name, row)]))
  }

  async function inspect(name: string): Promise<LockState> {
    const [state = { name, held: false }] = await held(sql.look, [Buffer.from(name)])
    return state
  }

  /** Frees the name. Resolves with whether the attempt held it until then. */
  async function free(name: string, attemptId: string): Promise<boolean> {
    const echo = newEcho()
    const values = [echo, echo, Buffer.from(name), attemptId]
    return numberIn(await runner.ask(sql.free, values, wrote(echo))) === 1n
  }

  /** Ends the hold of `attemptId` and keeps the name taken. Resolves with whether the attempt held it. */
  async function keep(name: string, attemptId: string, keepMs: number): Promise<boolean> {
    const echo = newEcho()
    const values = [echo, echo, keptAttemptId(attemptId), keepMs, Buffer.from(name), attemptId]
    return numberIn(await runner.ask(sql.keep, values, wrote(echo))) !== undefined
  }

  const adapter = {
    name: '@locks/mysql',
    capabilities: capabilities(given),
    inspect,

    async attempt(request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      const echo = newEcho()
      const term = [attemptId, bytesOf(request), ttlMs, ttlMs + lockDelayMs]
      const values = [Buffer.from(name), echo, echo, ...term, echo, echo, echo, echo, echo, echo]
      const fence = numberIn(await runner.ask(sql.take, values, surelyWrote(echo)))
      if (fence !== undefined && fence > 0n) return { name, attemptId, fence, ttlMs }
      // It was taken a moment ago; by now it may be free.
      const { holder, remainingMs = 0 } = await inspect(name)
      return { busy: true, retryInMs: Math.max(1, Math.ceil(remainingMs)), ...(holder && { holder }) }
    },

    async withdraw({ name, attemptId }) {
      await free(name, attemptId)
    },

    renew: renewer(
      sql,
      {
        look: (...call) => urgently((on) => on.look(...call)),
        askOnce: (...call) => urgently((on) => on.askOnce(...call)),
      },
      clock,
    ),

    async release({ name, attemptId }, keepMs = 0) {
      const released = keepMs > 0 ? await keep(name, attemptId, keepMs) : await free(name, attemptId)
      return released ? 'released' : 'not-held'
    },

    async adopt(from, request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      // The text of a lease comes from outside.
      if (!isAttemptId(from.attemptId) || from.fence < 1n || from.fence > MAX_FENCE) return 'lost'
      const echo = newEcho()
      const next = [bytesOf(request), attemptId, ttlMs, ttlMs + lockDelayMs]
      const about = [Buffer.from(name), String(from.fence), from.attemptId, attemptId] as const
      const fence = numberIn(await runner.ask(sql.adopt, [echo, echo, ...next, ...about], wrote(echo)))
      return fence === undefined ? 'lost' : { name, attemptId, fence, ttlMs }
    },

    list: (limit) => held(sql.list + String(limit)),

    async break(name, { fence }) {
      if (fence === undefined) return 'not-held'
      const echo = newEcho()
      const values = [echo, echo, Buffer.from(name), String(fence)]
      const broken = numberIn(await runner.ask(sql.break, values, wrote(echo)))
      return broken === undefined ? 'not-held' : 'broken'
    },

    diagnose: () => diagnose(settings, runner, clock),
    prune: (...call) => urgently((on) => pruneCounters(on, settings.place, 'unique-key', ...call)),

    async close() {
      await Promise.all([runner.close(), spare.close()])
    },
  } satisfies Adapter<UniqueKeyCapabilities>
  const record = strategyRecord(settings.place, runner)
  return tableAdapter(adapter, { ...settings, strategy: 'unique-key', record }, clock)
}
