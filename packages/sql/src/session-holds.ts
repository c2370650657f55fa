import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Grant,
  Renewal,
  RenewOutcome,
} from '@locks/core/adapter'
import type { Faults } from './faults.ts'
import type { Line } from './line.ts'
import type { Lines } from './lines.ts'
import { Session } from './session.ts'
import type { SessionDeps } from './session.ts'
import type { SessionDriver } from './session-driver.ts'

export interface SessionHoldsOptions<L extends Line> {
  readonly driver: SessionDriver<L>
  /** A connection for each holder and each waiter. */
  readonly lines: Lines<L>
  readonly faults: Faults
  /** The longest silence of a holder, whatever its ttl. */
  readonly sessionTtlMs: number
  /** Called after each release. */
  readonly released: () => void
}

export type SessionHolds = Required<Pick<Adapter, 'attempt' | 'wait' | 'withdraw' | 'renew' | 'release'>>

/** The part of an adapter that is the same wherever a lock is held by a connection, and by nothing else. */
export function sessionHolds<L extends Line>(
  { driver, lines, faults, sessionTtlMs, released }: SessionHoldsOptions<L>,
  { clock, report }: AdapterHost,
): SessionHolds {
  const { toLockError, unavailable } = faults
  const sessions = new Map<string, Session<L>>()
  const deps: SessionDeps<L> = { driver, lines, clock, faults, sessionTtlMs, lost }

  function lost(session: Session<L>): void {
    forget(session)
    report('lost', session.request.attemptId)
  }

  function forget(session: Session<L>): void {
    if (sessions.get(session.request.attemptId) === session) sessions.delete(session.request.attemptId)
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const known = sessions.get(request.attemptId)
    if (known !== undefined) {
      if (known.trying !== undefined) await known.trying
      const answer = await again(known)
      if (answer !== undefined) return answer
      forget(known)
    }
    const session = new Session(request, deps)
    sessions.set(request.attemptId, session)
    try {
      const answer = await session.tryLock()
      if ('busy' in answer && session.landing === undefined) forget(session)
      return answer
    } catch (error) {
      session.giveUp()
      forget(session)
      throw error
    }
  }

  /** What there is to say of an attempt that is known already, if it is still good for something. */
  async function again(session: Session<L>): Promise<Grant | Busy | undefined> {
    if (session.over) return undefined
    if (session.grant !== undefined) {
      if ((await probed(session, session.grant.ttlMs)) === 'renewed') return session.grant
      throw unavailable('the connection of this hold is gone')
    }
    if (session.landing === undefined) return undefined
    if (!(await session.isThere())) {
      session.abandon()
      return undefined
    }
    const by = await driver.holderOf(session.request.name)
    return { busy: true, retryInMs: session.ttlMs, ...(by && { holder: by.holder }) }
  }

  async function release({ name, attemptId }: Grant): Promise<'released' | 'not-held'> {
    const session = sessions.get(attemptId)
    if (session?.grant !== undefined && !session.over) {
      // The news that the server ended the connection may have arrived, and not be read yet.
      await polled()
      if (session.over) {
        // Lost before the release was sent, whatever can be learnt from the server now.
        tidy(name, attemptId)
        return 'not-held'
      }
      sessions.delete(attemptId)
      const held = await session.end()
      released()
      return held ? 'released' : 'not-held'
    }
    // No connection of ours holds it any more, but the server may not have noticed yet.
    if (await evicted(name, attemptId)) throw unavailable('the connection of this hold is being ended')
    return 'not-held'
  }

  /** Ends what the server still has of an attempt. Whether there was anything. */
  async function evicted(name: string, attemptId: string): Promise<boolean> {
    if ((await driver.holderOf(name))?.attemptId !== attemptId) return false
    await driver.evict(name, attemptId)
    return true
  }

  /** As far as the server can be reached; otherwise it finds out by itself. */
  function tidy(name: string, attemptId: string): void {
    evicted(name, attemptId).catch(() => undefined)
  }

  function polled(): Promise<void> {
    return new Promise((resolve) => (clock.afterPoll === undefined ? resolve() : clock.afterPoll(resolve)))
  }

  async function withdraw({ attemptId }: AcquireRequest): Promise<void> {
    const session = sessions.get(attemptId)
    if (session === undefined) return
    try {
      await session.end()
    } finally {
      forget(session)
    }
  }

  async function renewOne({ grant, ttlMs }: Renewal): Promise<RenewOutcome> {
    const session = sessions.get(grant.attemptId)
    return session?.grant === undefined || session.over ? 'lost' : probed(session, ttlMs)
  }

  async function probed(session: Session<L>, ttlMs: number): Promise<'renewed' | 'lost'> {
    try {
      await session.probe(ttlMs)
      return 'renewed'
    } catch {
      // A hold is its connection: one that fails has ended it, here and soon there.
      session.abandon()
      // Whoever asked may have been answered long ago.
      if (sessions.get(session.request.attemptId) === session) lost(session)
      return 'lost'
    }
  }

  /** One probe for each connection, all at once. One that hangs must not keep the others' answers. */
  async function renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    const outcomes: RenewOutcome[] = renewals.map(() => 'unknown')
    const patienceMs = Math.min(...renewals.map(({ ttlMs }) => ttlMs)) / 4
    const probes = renewals.map(async (renewal, n) => {
      outcomes[n] = await renewOne(renewal)
    })
    await orAfter(patienceMs, Promise.all(probes))
    return [...outcomes]
  }

  async function wait(
    { attemptId }: AcquireRequest,
    maxMs: number,
    signal: AbortSignal,
  ): ReturnType<SessionHolds['wait']> {
    const waiting = sessions.get(attemptId)
    if (waiting?.landing === undefined) return undefined
    try {
      const grant = await orAfter(maxMs, waiting.landing, signal)
      if (grant === undefined && waiting.over) forget(waiting)
      return grant
    } catch (error) {
      forget(waiting)
      if (driver.isWorthAnotherTry(error)) return undefined
      throw error
    }
  }

  function orAfter<T>(ms: number, work: Promise<T>, signal?: AbortSignal): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        timer.cancel()
        signal?.removeEventListener('abort', stop)
        resolve(undefined)
      }
      const timer = clock.timer(signal?.aborted ? 0 : ms, stop)
      signal?.addEventListener('abort', stop)
      work.then(resolve, reject).finally(stop)
    })
  }

  /** Errors of the driver stay inside. */
  function typed<Call extends readonly unknown[], Result>(
    act: (...call: Call) => Promise<Result>,
  ): (...call: Call) => Promise<Result> {
    return (...call) => act(...call).catch((error: unknown) => Promise.reject(toLockError(error)))
  }

  return {
    attempt: typed(attempt),
    wait: typed(wait),
    withdraw: typed(withdraw),
    release: typed(release),
    renew,
  }
}
