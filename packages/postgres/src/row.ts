import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  Grant,
  Renewal,
  RenewOutcome,
} from '@locks/core'
import { codeOf, toLockError, unavailable } from './errors.ts'
import { readHolder } from './holder.ts'
import { Line } from './line.ts'
import { Lines } from './lines.ts'
import type { Settings } from './options.ts'
import { refuseTransactionPooling } from './pooler.ts'
import { RowSession } from './row-session.ts'
import type { RowDeps } from './row-session.ts'
import { runnerFor } from './runner.ts'
import { rowStatements } from './sql.ts'

export interface RowCapabilities extends Capabilities {
  readonly kind: 'session'
  readonly fencing: 'durable'
  readonly wait: 'handoff'
  readonly handover: false
  readonly lockDelay: false
}

const capabilities: RowCapabilities = {
  scope: 'cluster',
  kind: 'session',
  fencing: 'durable',
  wait: 'handoff',
  fairness: 'fifo',
  handover: false,
  lockDelay: false,
  list: false,
  break: false,
  modes: ['exclusive'],
  minTtlMs: 100,
  maxNameBytes: 1024,
}

/** The wait ended without a grant, but nothing is wrong: cancelled, timed out, chosen by the deadlock detector. */
const worthAnotherTry = new Set(['57014', '55P03', '40P01', '40001'])

export function rowAdapter(settings: Settings, { clock, report }: AdapterHost): Adapter<RowCapabilities> {
  const { config, maxConnections, sessionTtlMs } = settings
  const sql = rowStatements(settings.place)
  const runner = runnerFor(settings, clock)
  const sessions = new Map<string, RowSession>()
  const openLine = (): Promise<Line> => Line.open(config, { pipeline: true })
  const lines = new Lines({ open: openChecked, max: maxConnections, clock })
  const deps: RowDeps = { lines, runner, sql, clock, sessionTtlMs, lost }

  async function openChecked(): Promise<Line> {
    const line = await openLine()
    try {
      await refuseTransactionPooling(line, openLine)
      return line
    } catch (error) {
      line.destroy()
      throw error
    }
  }

  function lost({ request: { attemptId } }: RowSession): void {
    sessions.delete(attemptId)
    report('lost', attemptId)
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const { attemptId, name } = request
    const known = sessions.get(attemptId)
    if (known !== undefined) {
      if (known.trying !== undefined) await known.trying
      const answer = await again(known, name)
      if (answer !== undefined) return answer
      if (sessions.get(attemptId) === known) sessions.delete(attemptId)
    }
    const session = new RowSession(request, deps)
    sessions.set(attemptId, session)
    const answer = await session.tryLock().catch((error: unknown) => {
      forget(session)
      throw toLockError(error)
    })
    if ('busy' in answer && session.landing === undefined) forget(session)
    return answer
  }

  /** What there is to say of an attempt that is known already, if it is still good for something. */
  async function again(session: RowSession, name: string): Promise<Grant | Busy | undefined> {
    if (session.over) return undefined
    if (session.grant !== undefined) {
      const { grant } = session
      await session.probe(grant.ttlMs).catch((error: unknown) => Promise.reject(toLockError(error)))
      return grant
    }
    if (session.landing === undefined) return undefined
    if (!(await session.isThere())) {
      session.abandon()
      return undefined
    }
    const { holder } = await inspect(name)
    return { busy: true, retryInMs: session.ttlMs, ...(holder && { holder }) }
  }

  function forget(session: RowSession): void {
    if (sessions.get(session.request.attemptId) === session) sessions.delete(session.request.attemptId)
  }

  async function holderOf(name: string) {
    const [[attemptId, fence, holder, since] = []] = await runner.run(sql.inspect, [Buffer.from(name)])
    return { attemptId, holder: readHolder(holder, fence, since) }
  }

  async function inspect(name: string) {
    const { holder } = await holderOf(name)
    return holder === undefined ? { name, held: false } : { name, held: true, holder }
  }

  async function release({
    name,
    attemptId,
  }: Pick<Grant, 'name' | 'attemptId'>): Promise<'released' | 'not-held'> {
    const session = sessions.get(attemptId)
    if (session?.grant !== undefined && !session.over) {
      sessions.delete(attemptId)
      await session.end().catch((error: unknown) => Promise.reject(toLockError(error)))
      return 'released'
    }
    // No connection of ours holds it any more, but the server may not have noticed yet.
    const holder = await holderOf(name)
    if (holder.holder === undefined) return 'released'
    if (holder.attemptId !== attemptId) return 'not-held'
    await runner.run(sql.terminate, [Buffer.from(name), attemptId])
    throw unavailable('the connection of this hold is being ended')
  }

  async function renewOne({ grant, ttlMs }: Renewal): Promise<RenewOutcome> {
    const session = sessions.get(grant.attemptId)
    if (session === undefined || session.grant === undefined || session.over) return 'lost'
    try {
      await session.probe(ttlMs)
      return 'renewed'
    } catch {
      // A hold is its connection: one that fails has ended it, here and soon there.
      session.abandon()
      forget(session)
      return 'lost'
    }
  }

  return {
    capabilities,
    attempt,
    release,
    inspect,

    async wait({ attemptId }, maxMs, signal) {
      const waiting = sessions.get(attemptId)
      if (waiting?.landing === undefined) return undefined
      let timer: { cancel(): void } | undefined
      let stop: (() => void) | undefined
      const enough = new Promise<undefined>((resolve) => {
        stop = () => resolve(undefined)
        timer = clock.timer(maxMs, stop)
        signal.addEventListener('abort', stop)
      })
      try {
        const grant = await Promise.race([waiting.landing, enough])
        if (grant === undefined && waiting.over) forget(waiting)
        return grant
      } catch (error) {
        forget(waiting)
        if (worthAnotherTry.has(codeOf(error) ?? '')) return undefined
        throw toLockError(error)
      } finally {
        timer?.cancel()
        if (stop !== undefined) signal.removeEventListener('abort', stop)
      }
    },

    async withdraw(request) {
      const session = sessions.get(request.attemptId)
      if (session === undefined) return
      await session.end().catch((error: unknown) => Promise.reject(toLockError(error)))
      forget(session)
    },

    /** One probe for each connection, all at once. One that hangs must not keep the others' answers. */
    async renew(renewals) {
      const outcomes: RenewOutcome[] = renewals.map(() => 'unknown')
      const patienceMs = Math.min(...renewals.map(({ ttlMs }) => ttlMs)) / 4
      const probes = renewals.map(async (renewal, n) => {
        outcomes[n] = await renewOne(renewal)
      })
      let timer: { cancel(): void } | undefined
      const late = new Promise<void>((resolve) => (timer = clock.timer(patienceMs, resolve)))
      await Promise.race([Promise.all(probes), late])
      timer?.cancel()
      return outcomes
    },

    async close() {
      await Promise.all([lines.close(), runner.close()])
    },
  }
}
