import { LockError } from '@locks/core'
import type { AcquireRequest, Grant, Handover, Holder, Renewal, RenewOutcome } from '@locks/core'
import type { Connection } from './connection.ts'
import { slotOf } from './connection.ts'
import { aboutOf, holderOf } from './holder.ts'
import { layoutBeside, layoutOf } from './layout.ts'
import type { Layout } from './layout.ts'
import * as scripts from './scripts.ts'

/** So many leases are renewed by one call: some thousand steps, which Redis does in about a millisecond. */
const RENEW_BATCH = 500

/** Names whose keys are remembered, for programs that use a few again and again. */
const LAYOUTS = 1_000

/** What Redis says to an attempt that does not get the lock. */
export interface Refusal {
  readonly busy: true
  /** Which attempt holds the lock, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  /** The holder is Redisson's, so that its release is told on Redisson's channel only. */
  readonly foreign: boolean
  readonly leftMs: number
  /** How many wait before this attempt, -1 when it is not in the queue. */
  readonly place: number
  /** The server's time in µs. */
  readonly serverTime: number
}

/** What Redis knows about a name. */
export interface Look {
  /** Which attempt holds it, or Redisson's field. */
  readonly attempt: string | undefined
  readonly holder: Holder | undefined
  readonly leftMs: number
  readonly waiters: number
}

/** How one Redis keeps locks: each method is one atomic step there. */
export class Store {
  readonly #connection: Connection
  readonly #claimTtlMs: number
  readonly #scripts: scripts.Scripts
  readonly #layouts = new Map<string, Layout>()

  constructor(connection: Connection, claimTtlMs: number) {
    this.#connection = connection
    this.#claimTtlMs = claimTtlMs
    this.#scripts = scripts.scriptsOf(connection.cluster)
  }

  layout(name: string): Layout {
    const known = this.#layouts.get(name)
    if (known !== undefined) return known
    const layout = layoutOf(this.#connection.prefix + name, this.#connection.cluster)
    if (this.#layouts.size >= LAYOUTS) this.#layouts.clear()
    this.#layouts.set(name, layout)
    return layout
  }

  attempt(request: AcquireRequest, enqueue: boolean): Promise<bigint | Refusal> {
    const [keys, args] = this.#attemptCall(request, enqueue)
    return this.#connection.run(this.#scripts.acquire, keys, args).then(answerOf)
  }

  /** As `attempt`, and how many replicas have what it wrote; undefined when that cannot be known. */
  async attemptAndWait(
    request: AcquireRequest,
    enqueue: boolean,
    wanted: number,
    timeoutMs: number,
  ): Promise<{ readonly answer: bigint | Refusal; readonly replicas: number | undefined }> {
    const [keys, args] = this.#attemptCall(request, enqueue)
    const connection = this.#connection
    const { reply, replicas } = await connection.runAndWait(
      this.#scripts.acquire,
      keys,
      args,
      wanted,
      timeoutMs,
    )
    return { answer: answerOf(reply), replicas }
  }

  /** Takes `attemptId` out of the lock and, with the request, out of its queue. */
  free(name: string, attemptId: string, request?: AcquireRequest): Promise<'released' | 'not-held'> {
    const member = request?.willWait === true ? this.#memberOf(request) : ''
    return this.#free(this.layout(name), attemptId, member)
  }

  /** As `free`, by the key that a grant was told with. */
  async giveBack(lock: string, attemptId: string): Promise<void> {
    await this.#free(layoutBeside(lock, this.#connection.cluster), attemptId, '')
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    const outcomes: RenewOutcome[] = Array.from(renewals, () => 'unknown')
    const calls = this.#batches(renewals).map(async (batch) => {
      const keys = batch.map(({ key }) => key)
      const args = batch.flatMap(({ renewal: { grant, ttlMs, lockDelayMs } }) => [
        grant.attemptId,
        ttlMs + lockDelayMs,
        lockDelayMs,
      ])
      const reply = await this.#connection.run(scripts.renew, keys, args)
      if (!Array.isArray(reply)) return
      batch.forEach(({ index }, n) => (outcomes[index] = outcomeOf(reply[n])))
    })
    const failures = (await Promise.allSettled(calls)).filter((call) => call.status === 'rejected')
    // Where some of them were answered, the others are unknown; where none was, the reason is worth more.
    if (failures[0] !== undefined && failures.length === calls.length) throw failures[0].reason
    return outcomes
  }

  async adopt(from: Handover, request: AcquireRequest): Promise<Grant | 'lost'> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const { lock } = this.layout(name)
    const args = [from.attemptId, attemptId, ttlMs + lockDelayMs, lockDelayMs, aboutOf(request)]
    const reply = await this.#connection.run(scripts.adopt, [lock], args)
    return typeof reply === 'string' ? { name, attemptId, fence: BigInt(reply), ttlMs } : 'lost'
  }

  async look(name: string): Promise<Look> {
    const { lock, queue } = this.layout(name)
    const reply = await this.#connection.run(scripts.inspect, [lock, queue], [])
    const [leftMs, waiters, ...fields] = listOf(reply)
    const { attempt, holder } = holderOf(fields)
    return { attempt, holder, leftMs: Math.max(0, Number(leftMs)), waiters: Number(waiters ?? 0) }
  }

  /** Whether `attemptId` still holds the name; if so, `fence` is its own from now on, and later ones are higher. */
  async raise(name: string, attemptId: string, fence: bigint): Promise<boolean> {
    const { lock, token } = this.layout(name)
    return (await this.#connection.run(scripts.raise, [lock, token], [attemptId, String(fence)])) === 1
  }

  #free(layout: Layout, attemptId: string, member: string): Promise<'released' | 'not-held'> {
    const { lock, token, queue, redisson } = layout
    const connection = this.#connection
    const { breaks } = connection
    const keys = [lock, token, queue]
    return connection.run(this.#scripts.free, keys, [attemptId, member, redisson]).then((reply) => {
      if (reply !== 1) return 'released'
      // Perhaps by this very release, whose reply was lost: asked again, core knows what to make of it.
      if (connection.breaks !== breaks)
        throw new LockError('LOCK_UNAVAILABLE', 'the connection broke in between')
      return 'not-held'
    })
  }

  #attemptCall(request: AcquireRequest, enqueue: boolean): [string[], (string | number)[]] {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const { lock, token, queue } = this.layout(name)
    const args = [attemptId, ttlMs + lockDelayMs, aboutOf(request)]
    if (enqueue) args.push(lockDelayMs, this.#claimOf(request))
    else if (lockDelayMs > 0) args.push(lockDelayMs)
    return [[lock, token, queue], args]
  }

  #claimOf({ ttlMs }: AcquireRequest): number {
    return Math.min(ttlMs, this.#claimTtlMs)
  }

  /** A place in the queue says all that the release needs to make this attempt the holder; the script says it alike. */
  #memberOf(request: AcquireRequest): string {
    return `${request.attemptId} ${this.#claimOf(request)} ${request.lockDelayMs} ${aboutOf(request)}`
  }

  /** Groups of one slot on a Cluster, of any on a single server. */
  #batches(renewals: readonly Renewal[]): { key: string; renewal: Renewal; index: number }[][] {
    const bySlot = new Map<number, { key: string; renewal: Renewal; index: number }[][]>()
    renewals.forEach((renewal, index) => {
      const key = this.layout(renewal.grant.name).lock
      const slot = this.#connection.cluster ? slotOf(key) : 0
      let batches = bySlot.get(slot)
      if (batches === undefined) bySlot.set(slot, (batches = [[]]))
      let batch = batches.at(-1)
      if (batch === undefined || batch.length >= RENEW_BATCH) batches.push((batch = []))
      batch.push({ key, renewal, index })
    })
    return [...bySlot.values()].flat()
  }
}

function answerOf(reply: unknown): bigint | Refusal {
  if (typeof reply === 'string') return BigInt(reply)
  const [leftMs, place, serverTime, ...fields] = listOf(reply)
  const { attempt, holder, foreign } = holderOf(fields)
  return {
    busy: true,
    attempt,
    holder,
    foreign,
    leftMs: Math.max(0, Number(leftMs)),
    place: Number(place),
    serverTime: Number(serverTime),
  }
}

function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}

function outcomeOf(reply: unknown): RenewOutcome {
  return reply === 1 ? 'renewed' : reply === 0 ? 'lost' : 'unknown'
}
