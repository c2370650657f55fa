import { orAfter } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Grant,
  Renewal,
  RenewOutcome,
} from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import { Session } from './session.ts'
import type { SessionOptions } from './session.ts'

export type SessionHolds = Required<Pick<Adapter, 'attempt' | 'wait' | 'withdraw' | 'renew' | 'release'>>

/** How attempts, waits and holds work wherever a lock is held by a connection, and by nothing else. */
export function sessionHolds<C extends Connection>(
  options: SessionOptions<C>,
  { clock, report }: AdapterHost,
): SessionHolds {
  const {
    driver,
    errors: { toLockError, unavailable },
  } = options
  const sessions = new Map<string, Session<C>>()
  const deps = { ...options, clock, lost }

  function lost(session: Session<C>): void {
    forget(session)
    report('lost', session.request.attemptId)
  }

  function forget(session: Session<C>): void {
    if (sessions.get(session.request.attemptId) === session) sessions.delete(session.request.attemptId)
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const known = sessions.get(request.attemptId)
    if (known !== undefined) {
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
      session.tryFailed()
      forget(session)
      throw error
    }
  }

  /** The answer to a repeated attempt; undefined when it has to start over. */
  async function again(session: Session<C>): Promise<Grant | Busy | undefined> {
    if (session.over) return undefined
    if (session.grant !== undefined) {
      if ((await probed(session, session.grant.ttlMs)) === 'renewed') return session.grant
      throw unavailable('the connection of this hold is gone, so the lock is no longer held')
    }
    if (session.landing === undefined) return undefined
    if (!(await session.isThere())) {
      session.discard()
      return undefined
    }
    const by = await driver.holderOf(session.request.name)
    return { busy: true, retryInMs: session.ttlMs, ...(by && { holder: by.holder }) }
  }

  async function release({ name, attemptId }: Grant): Promise<'released' | 'not-held'> {
    const session = sessions.get(attemptId)
    if (session?.grant !== undefined && !session.over) {
      // The server may have ended the connection already, in a message that is not read yet.
      await polled()
      if (session.over) {
        // Lost before the release was sent. The server may not have noticed; if it cannot be reached, it will.
        driver.breakHold(name, attemptId).catch(() => undefined)
        return 'not-held'
      }
      sessions.delete(attemptId)
      return (await session.end()) ? 'released' : 'not-held'
    }
    // No connection of this client holds it any more, but the server may not have noticed yet.
    if (await driver.breakHold(name, attemptId))
      throw unavailable('the connection of this hold is being ended; the lock is free once it is')
    return 'not-held'
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

  async function probed(session: Session<C>, ttlMs: number): Promise<'renewed' | 'lost'> {
    try {
      await session.probe(ttlMs)
      return 'renewed'
    } catch {
      // The hold is its connection: when that fails, the server ends the hold soon after.
      session.discard()
      // The renewal may have been answered as `unknown` long ago.
      if (sessions.get(session.request.attemptId) === session) lost(session)
      return 'lost'
    }
  }

  /** Probes all connections at once. One that hangs does not delay the outcomes of the others. */
  async function renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    const outcomes: RenewOutcome[] = renewals.map(() => 'unknown')
    const patienceMs = Math.min(...renewals.map(({ ttlMs }) => ttlMs)) / 4
    const probes = renewals.map(async (renewal, n) => {
      outcomes[n] = await renewOne(renewal)
    })
    await orAfter(clock, patienceMs, Promise.all(probes))
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
      const grant = await orAfter(clock, maxMs, waiting.landing, { signal })
      if (grant === undefined && waiting.over) forget(waiting)
      return grant
    } catch (error) {
      forget(waiting)
      if (driver.isWorthAnotherTry(error)) return undefined
      throw error
    }
  }

  /** Turns errors of the driver into lock errors. */
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
