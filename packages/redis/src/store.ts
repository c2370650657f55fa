import { batchesOf, isAttemptId, keptAttemptId, once } from '@locks/core/adapter'
import type { AcquireRequest, Grant, Handover, Holder, Renewal, RenewOutcome } from '@locks/core/adapter'
import type { Connection, Primary } from './connection.ts'
import type { Argument } from './drivers/driver.ts'
import { slotOf } from './drivers/slots.ts'
import { errors, repliedWith } from './errors.ts'
import { reportFindings } from './findings.ts'
import type { RedisSettings } from './options.ts'
import { scriptsOf } from './queue-scripts.ts'
import type { Scripts } from './queue-scripts.ts'
import {
  aboutOf,
  answerOf,
  layoutBeside,
  layoutOf,
  lookIn,
  nameOf,
  notAnAttempt,
  outcomeOf,
  Proofs,
  unlessRefused,
} from './record.ts'
import type { Layout, Look, Refusal } from './record.ts'
import { isOne, keysOf, listOf } from './script.ts'
import type { Keys, Script } from './script.ts'
import * as scripts from './scripts.ts'

/** How many leases one call renews: some thousand steps, which take Redis about a millisecond. */
const RENEW_BATCH = 500

/** How many names have their keys remembered, for programs that use a few again and again. */
const LAYOUTS = 1_000

/** A renewal, the key of its lock, and its index among all. */
interface Due {
  readonly key: string
  readonly renewal: Renewal
  readonly index: number
}

/** At the server's settings. */
interface FirstLook {
  readonly breaks: number
  readonly report: (primaries: readonly Primary[]) => Promise<void>
}

/** How one Redis keeps locks: each method is one atomic step there. */
export class Store {
  readonly #connection: Connection
  /** For WAIT, which blocks its connection until it is answered. */
  readonly #replicated: Connection
  readonly #settings: RedisSettings
  readonly #scripts: Scripts
  /** Whether the server's settings were looked at; after a failure the next attempt looks again. */
  #looked: boolean
  /** Shared by all attempts until a connection breaks: a client of the program may then never settle what it sent. */
  #look: FirstLook
  readonly #layouts = new Map<string, Layout>()
  /** Prove that pushed grants come from the store. */
  readonly proofs: Proofs = new Proofs()

  constructor(connection: Connection, settings: RedisSettings, replicated: Connection = connection) {
    this.#connection = connection
    this.#replicated = replicated
    this.#settings = settings
    this.#scripts = scriptsOf(connection.cluster, settings.fenceIdleMs)
    this.#looked = settings.serverSettings === 'ignore'
    this.#look = this.#newLook()
  }

  layout(name: string): Layout {
    const known = this.#layouts.get(name)
    if (known !== undefined) return known
    const layout = layoutOf(this.#connection.prefix + name, this.#connection.cluster)
    if (this.#layouts.size >= LAYOUTS) this.#layouts.clear()
    this.#layouts.set(name, layout)
    return layout
  }

  /** Resolves with what `read` makes of the fence or the refusal. */
  attempt<T>(
    request: AcquireRequest,
    enqueue: boolean,
    read: (answer: bigint | Refusal) => T | Promise<T>,
  ): Promise<T> {
    if (!isAttemptId(request.attemptId)) return Promise.reject(notAnAttempt())
    if (!this.#looked)
      return this.#lookAtServer(request.name).then(() => this.attempt(request, enqueue, read))
    const [keys, args] = this.#attemptCall(request, enqueue)
    if (this.#settings.waitForReplicas > 0) return this.#attemptReplicated(request, keys, args).then(read)
    return this.#run(this.#scripts.acquire, keys, args, (reply) => read(answerOf(reply)))
  }

  async #lookAtServer(name: string): Promise<void> {
    // Each by its own key: a primary that hangs must not block the locks of the others.
    const primaries = await this.#connection.primaries(this.layout(name).lock)
    if (this.#look.breaks !== this.#connection.breaks) this.#look = this.#newLook()
    await this.#look.report(primaries)
    this.#looked = true
  }

  #newLook(): FirstLook {
    const { breaks, cluster } = this.#connection
    return { breaks, report: once((primaries) => reportFindings(primaries, this.#settings, cluster)) }
  }

  async #attemptReplicated(request: AcquireRequest, keys: Keys, args: Argument[]): Promise<bigint | Refusal> {
    const { waitForReplicas: wanted, waitForReplicasMs: withinMs } = this.#settings
    const { acquire } = this.#scripts
    const read = unlessRefused(answerOf)
    const { answer, replicas } = await this.#replicated.runAndWait(acquire, keys, args, read, [
      wanted,
      withinMs,
    ])
    if (typeof answer === 'object' || (replicas ?? -1) >= wanted) return answer
    await this.withdraw(request)
    const reached = replicas ?? 'an unknown number'
    throw errors.unavailable(
      `${reached} of ${wanted} replicas confirmed the grant within ${withinMs} ms; it was withdrawn`,
    )
  }

  /**
   * Ends the hold of `attemptId`, and keeps the name taken for `keepMs` more. `not-held`: the name is free, or held by
   * another attempt.
   */
  release(name: string, attemptId: string, keepMs = 0): Promise<'released' | 'not-held'> {
    if (keepMs === 0) return this.#endOnce(this.#scripts.release, this.layout(name), [attemptId], 'released')
    const args = [attemptId, keptAttemptId(attemptId), keepMs]
    return this.#endOnce(this.#scripts.keep, this.layout(name), args, 'released')
  }

  /** Takes the attempt out of the lock and out of its queue, wherever it is. */
  async withdraw(request: AcquireRequest): Promise<void> {
    const { name, attemptId, willWait } = request
    const args = willWait ? [attemptId, this.#memberOf(request)] : [attemptId]
    await this.#run(this.#scripts.release, this.layout(name).keys, args, () => undefined)
  }

  /** Ends a hold by the key in the message of its grant. */
  async releaseUnwanted(lock: string, attemptId: string): Promise<void> {
    const { keys } = layoutBeside(lock, this.#connection.cluster)
    await this.#run(this.#scripts.release, keys, [attemptId], () => undefined)
  }

  /** How long a lock that is handed off to `request` waits for its first renewal. */
  claimOf({ ttlMs }: AcquireRequest): number {
    return Math.min(ttlMs, this.#settings.claimTtlMs)
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    const outcomes: RenewOutcome[] = Array.from(renewals, () => 'unknown')
    await this.#renewAll(this.#batches(renewals), outcomes)
    return outcomes
  }

  async adopt(from: Handover, request: AcquireRequest): Promise<Grant | 'lost'> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const { lock } = this.layout(name)
    const { fence } = from
    if (!isAttemptId(from.attemptId)) throw notAnAttempt()
    const life = [ttlMs + lockDelayMs, lockDelayMs]
    const args = [from.attemptId, attemptId, String(fence), ...life, aboutOf(request)]
    const adopted = await this.#run(scripts.adopt, keysOf([lock]), args, isOne)
    return adopted ? { name, attemptId, fence, ttlMs } : 'lost'
  }

  look(name: string): Promise<Look> {
    const { lock, queue } = this.layout(name)
    return this.#run(scripts.inspect, keysOf([lock, queue]), [], lookIn)
  }

  /** Ends the hold that `look` described. */
  break(name: string, { fence, owner }: Holder): Promise<'broken' | 'not-held'> {
    const args = [fence === undefined ? '' : String(fence), owner]
    return this.#endOnce(this.#scripts.break, this.layout(name), args, 'broken')
  }

  /** Calls `found` with held names, a page at a time, until it returns false. */
  async names(found: (names: readonly string[]) => Promise<boolean>): Promise<void> {
    const { prefix, cluster } = this.#connection
    const seen = new Set<string>()
    for await (const [{ run }, hashes] of this.#connection.scan('TYPE', 'hash')) {
      const own = hashes.filter((key) => nameOf(key, cluster)?.startsWith(prefix))
      const locks = own.length === 0 ? [] : listOf(await run(scripts.locksAmong, own))
      const names = locks
        .map((key) => nameOf(String(key), cluster)?.slice(prefix.length) ?? '')
        .filter((name) => name !== '' && !seen.has(name))
      names.forEach((name) => seen.add(name))
      if (names.length > 0 && !(await found(names))) return
    }
  }

  /** Whether `attemptId` still holds the name. If so, `fence` replaces the one `minted`, and later ones are higher. */
  async raise(name: string, attemptId: string, fence: bigint, minted: bigint): Promise<boolean> {
    const { lock, token } = this.layout(name)
    const args = [attemptId, String(fence), String(minted), this.#settings.fenceIdleMs]
    return this.#run(scripts.raise, keysOf([lock, token]), args, isOne)
  }

  async #renewAll(batches: readonly (readonly Due[])[], outcomes: RenewOutcome[]): Promise<void> {
    const calls = batches.map((batch) => this.#renewBatch(batch, outcomes))
    const failures = (await Promise.allSettled(calls)).filter((call) => call.status === 'rejected')
    // If some were answered, the others are unknown; if none was, the caller needs the reason.
    if (failures[0] !== undefined && failures.length === calls.length) throw failures[0].reason
  }

  async #renewBatch(batch: readonly Due[], outcomes: RenewOutcome[]): Promise<void> {
    const keys = keysOf(batch.map(({ key }) => key))
    const args = batch.flatMap(({ renewal: { grant, ttlMs, lockDelayMs } }) => [
      grant.attemptId,
      ttlMs + lockDelayMs,
      lockDelayMs,
    ])
    try {
      const reply = await this.#connection.run(scripts.renew, keys, args, listOf)
      batch.forEach(({ index }, n) => (outcomes[index] = outcomeOf(reply[n])))
    } catch (error) {
      // While a slot is half moved Redis serves several of its keys nowhere (TRYAGAIN), but each of them alone.
      if (batch.length === 1 || !repliedWith(error, 'REDIRECTIONS')) throw error
      await this.#renewAll(
        batch.map((due) => [due]),
        outcomes,
      )
    }
  }

  /** Rejects if the script refused to touch a key. */
  #run<T>(
    script: Script,
    keys: Keys,
    args: readonly Argument[],
    read: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    return this.#connection.run(script, keys, args, unlessRefused(read))
  }

  #endOnce<T>(script: Script, { keys }: Layout, args: Argument[], done: T): Promise<T | 'not-held'> {
    const connection = this.#connection
    const { breaks } = connection
    return this.#run(script, keys, args, (reply) => {
      if (!isOne(reply)) return done
      // This call may have ended the hold and lost its reply: core asks again.
      if (connection.breaks !== breaks)
        throw errors.unavailable('the connection broke during a release, which may have acted')
      return 'not-held'
    })
  }

  #attemptCall(request: AcquireRequest, enqueue: boolean): [Keys, Argument[]] {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const args = [attemptId, ttlMs + lockDelayMs, aboutOf(request)]
    if (enqueue) args.push(lockDelayMs, this.claimOf(request), this.#secretOf(request))
    else if (lockDelayMs > 0) args.push(lockDelayMs)
    return [this.layout(name).keys, args]
  }

  /** An entry has all that a release needs to make this attempt the holder; the script writes the same. */
  #memberOf(request: AcquireRequest): string {
    const { attemptId, lockDelayMs } = request
    return `${attemptId} ${this.claimOf(request)} ${lockDelayMs} ${this.#secretOf(request)} ${aboutOf(request)}`
  }

  #secretOf({ name, attemptId }: AcquireRequest): string {
    return this.proofs.secretOf(this.layout(name).lock, attemptId)
  }

  /** Each batch is of one slot on a Cluster. */
  #batches(renewals: readonly Renewal[]): (readonly Due[])[] {
    const bySlot = new Map<number, Due[]>()
    renewals.forEach((renewal, index) => {
      const key = this.layout(renewal.grant.name).lock
      const slot = this.#connection.cluster ? slotOf(key) : 0
      const same = bySlot.get(slot) ?? []
      bySlot.set(slot, same)
      same.push({ key, renewal, index })
    })
    return [...bySlot.values()].flatMap((same) => [...batchesOf(same, RENEW_BATCH)])
  }
}
