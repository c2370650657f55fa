import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  Grant,
  LockState,
  Renewal,
  RenewOutcome,
} from '@locks/core'
import { errnoOf, toLockError, unavailable } from './errors.ts'
import { readHolder } from './holder.ts'
import { Line } from './line.ts'
import { Lines } from './lines.ts'
import type { Settings } from './options.ts'
import { runnerFor, strict, withoutGaps } from './runner.ts'
import { Session } from './session.ts'
import type { SessionDeps } from './session.ts'
import { FOREVER_S, lockNameOf, sessionStatements } from './sql.ts'

export interface SessionCapabilities extends Capabilities {
  readonly kind: 'session'
  readonly fencing: 'durable'
  readonly wait: 'handoff'
  readonly handover: false
  readonly lockDelay: false
}

const capabilities: SessionCapabilities = {
  scope: 'cluster',
  kind: 'session',
  fencing: 'durable',
  wait: 'handoff',
  // MySQL 8 prefers whoever keeps most others waiting.
  fairness: 'none',
  handover: false,
  lockDelay: false,
  list: false,
  break: false,
  modes: ['exclusive'],
  minTtlMs: 1_000,
  maxNameBytes: 1024,
}

/** The wait ended without a grant, but nothing is wrong: killed, timed out, chosen by the deadlock detector. */
const worthAnotherTry = new Set([1317, 1205, 1213, 1969, 3024, 3058])

/** Strategies `row` and `named`: a lock is held by a connection, and by nothing else. */
export function sessionAdapter(
  settings: Settings,
  strategy: 'row' | 'named',
  { clock, report }: AdapterHost,
): Adapter<SessionCapabilities> {
  const { config, place, maxConnections, sessionTtlMs } = settings
  const sql = sessionStatements(place, strategy)
  const runner = runnerFor(settings, clock)
  const sessions = new Map<string, Session>()
  const patient = `SET SESSION innodb_lock_wait_timeout = ${FOREVER_S}`
  const lines = new Lines({
    open: () => Line.open(config, strict, withoutGaps, patient),
    max: maxConnections,
    clock,
  })
  const lockName = (name: string): string => lockNameOf(place, config.database ?? '', name)
  const deps: SessionDeps = { lines, runner, sql, clock, sessionTtlMs, lockName, lost }

  function lost({ request: { attemptId } }: Session): void {
    sessions.delete(attemptId)
    report('lost', attemptId)
  }

  function forget(session: Session): void {
    if (sessions.get(session.request.attemptId) === session) sessions.delete(session.request.attemptId)
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const { attemptId, name } = request
    const known = sessions.get(attemptId)
    if (known !== undefined) {
      if (known.trying !== undefined) await known.trying
      const answer = await again(known, name)
      if (answer !== undefined) return answer
      forget(known)
    }
    const session = new Session(request, deps)
    sessions.set(attemptId, session)
    const answer = await session.tryLock().catch((error: unknown) => {
      forget(session)
      throw toLockError(error)
    })
    if ('busy' in answer && session.landing === undefined) forget(session)
    return answer
  }

  /** What there is to say of an attempt that is known already, if it is still good for something. */
  async function again(session: Session, name: string): Promise<Grant | Busy | undefined> {
    if (session.over) return undefined
    if (session.grant !== undefined) {
      const { grant } = session
      await session.probe(grant.ttlMs).catch((error: unknown) => Promise.reject(toLockError(error)))
      return grant
    }
    if (session.landing === undefined) return undefined
    const { holder } = await inspect(name)
    return { busy: true, retryInMs: session.ttlMs, ...(holder && { holder }) }
  }

  async function holderOf(name: string) {
    const { rows } = await runner.run(sql.inspect, [Buffer.from(name)])
    const [attemptId, fence, holder, since, thread] = rows[0] ?? []
    return { attemptId, thread, holder: readHolder(holder, fence, since) }
  }

  async function inspect(name: string): Promise<LockState> {
    const { holder } = await holderOf(name)
    return holder === undefined ? { name, held: false } : { name, held: true, holder }
  }

  async function release({ name, attemptId }: Grant): Promise<'released' | 'not-held'> {
    const session = sessions.get(attemptId)
    if (session?.grant !== undefined && !session.over) {
      sessions.delete(attemptId)
      await session.end().catch((error: unknown) => Promise.reject(toLockError(error)))
      return 'released'
    }
    // No connection of ours holds it any more, but the server may not have noticed yet.
    const { holder, attemptId: by, thread } = await holderOf(name)
    if (holder === undefined) return 'released'
    if (by !== attemptId) return 'not-held'
    await runner.run(`KILL CONNECTION ${Number(thread)}`)
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
        if (worthAnotherTry.has(errnoOf(error) ?? 0)) return undefined
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
