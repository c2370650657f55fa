import { batchesOf } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import { CreateMode } from 'node-zookeeper-client'
import type { ACL, Client, Exception, Stat } from 'node-zookeeper-client'
import { code, isCutOff, isRequestError, isVerdict, requestError } from './errors.ts'
import { limitRequestNumbers, unwatch, withoutRetries } from './quirks.ts'

export interface NodeData {
  /** The library returns none for a node that was created without. */
  readonly data: Buffer | undefined
  readonly stat: Stat
}

export interface Refusal {
  readonly step: 'created' | 'deleted'
  readonly code: number
}

export interface RequestListener {
  /** Returns whether a request may be sent on this connection. */
  sendable(now: number): boolean
  sent(): void
  /** A request was answered; `written` when the answer came from the leader. */
  answered(sentAt: number, written: boolean): void
}

interface Pending {
  readonly sentAt: number
  readonly fail: (error: Error) => void
}

/** How many nodes one request checks: a server accepts requests of up to a megabyte. */
const BATCH = 200

type Settle<T> = (error: Exception | null, value: T) => void

/**
 * The library's requests as promises. A connection that breaks fails all pending requests, including those that the
 * library forgets; whether the server executed them is then unknown.
 */
export class Requests {
  readonly #client: Client
  readonly #clock: Clock
  readonly #acl: readonly ACL[]
  readonly #pending = new Set<Pending>()
  readonly #listener: RequestListener
  #connected = false

  constructor(client: Client, clock: Clock, acl: readonly ACL[], listener: RequestListener) {
    this.#client = withoutRetries(client)
    this.#clock = clock
    this.#acl = acl
    this.#listener = listener
  }

  /** When the oldest pending request was sent. */
  get oldest(): number | undefined {
    for (const { sentAt } of this.#pending) return sentAt
    return undefined
  }

  createDirectory(path: string, data: Buffer = Buffer.alloc(0)): Promise<string> {
    return this.#send(true, (done) => this.#client.create(path, data, this.#acl, CreateMode.PERSISTENT, done))
  }

  /** Returns the path with its sequence. Calls `late` if the node appears after this request has failed. */
  createMember(prefix: string, data: Buffer, late: () => void): Promise<string> {
    return this.#send(
      true,
      (done) => this.#client.create(prefix, data, this.#acl, CreateMode.EPHEMERAL_SEQUENTIAL, done),
      late,
    )
  }

  /** Returns whether the node was there. Rejects if its data is not at that version; -1 is any. */
  async remove(path: string, version = -1): Promise<boolean> {
    const removed = this.#send<true>(true, (done) =>
      this.#client.remove(path, version, (error) => done(error, true)),
    )
    return (await ifThere(removed)) ?? false
  }

  exists(path: string): Promise<Stat | null> {
    return this.#send(false, (done) => this.#client.exists(path, done))
  }

  /** Undefined when there is no such node; then the watcher is not set either, unlike with `exists`. */
  data(path: string, watcher?: () => void): Promise<NodeData | undefined> {
    const send = (done: Settle<NodeData>): void => {
      const both = (error: Exception | null, data: Buffer, stat: Stat): void => done(error, { data, stat })
      if (watcher === undefined) this.#client.getData(path, both)
      else this.#client.getData(path, watcher, both)
    }
    return ifThere(this.#send(false, send, watcher && (() => this.unwatch(path, watcher))))
  }

  unwatch(path: string, watcher: () => void): void {
    unwatch(this.#client, path, watcher)
  }

  /** None when there is no such node. */
  async children(path: string): Promise<readonly string[]> {
    const children = this.#send<string[]>(false, (done) => this.#client.getChildren(path, done))
    return (await ifThere(children)) ?? []
  }

  /**
   * Returns the index of a node that does not exist. The leader answers, so the answer is up to date; a read is
   * answered by any one server, from what it has.
   */
  missing(paths: readonly string[]): Promise<number | undefined> {
    return this.#send(true, (done) => {
      let transaction = this.#client.transaction()
      for (const path of paths) transaction = transaction.check(path)
      transaction.commit((error, results) => {
        const index = results?.findIndex(({ err = 0 }) => err !== 0) ?? -1
        if (error?.code === code.noNode && index >= 0) done(null, index)
        else done(error, undefined)
      })
    })
  }

  /** Which of these nodes exist, according to the leader. A few requests, so this is a cheap sign of life too. */
  async present(paths: readonly string[]): Promise<ReadonlySet<string>> {
    const batches = [...batchesOf(paths, BATCH)].map((batch) => this.#presentOf(batch))
    return new Set((await Promise.all(batches)).flat())
  }

  async #presentOf(paths: readonly string[]): Promise<readonly string[]> {
    let present = paths
    while (present.length > 0) {
      const missing = await this.missing(present)
      if (missing === undefined) break
      present = present.filter((_, index) => index !== missing)
    }
    return present
  }

  /** After this, reads of this session see everything that any client had seen before the call. */
  async catchUp(): Promise<void> {
    try {
      await this.missing(['/'])
    } catch (error) {
      // A refusal comes from the leader too.
      if (!isRequestError(error) || isCutOff(error)) throw error
    }
  }

  /** Whether a node could be created and deleted. The last step of the transaction fails, so nothing changes. */
  rehearse(path: string): Promise<Refusal | undefined> {
    return this.#send(true, (done) =>
      this.#client
        .transaction()
        .create(path, Buffer.alloc(0), this.#acl, CreateMode.PERSISTENT)
        .remove(path)
        .check(path)
        .commit((error, results) => {
          const index = results?.findIndex(({ err = 0 }) => err !== 0) ?? -1
          if (!error || index < 0) done(error, undefined)
          else if (index > 1) done(null, undefined)
          else done(null, { step: index === 0 ? 'created' : 'deleted', code: error.code })
        }),
    )
  }

  /** From now on requests are sent. Without a connection the library would keep them until there is one. */
  connected(): void {
    this.#connected = true
  }

  /** The connection is gone: fails everything pending. */
  disconnected(failed: number = code.connectionLoss): void {
    this.#connected = false
    const pending = [...this.#pending]
    this.#pending.clear()
    for (const { fail } of pending) fail(requestError(failed))
  }

  #send<T>(written: boolean, send: (done: Settle<T>) => void, late?: () => void): Promise<T> {
    const sentAt = this.#clock.now()
    if (!this.#connected || !this.#listener.sendable(sentAt))
      return Promise.reject(requestError(code.connectionLoss))
    return new Promise((resolve, reject) => {
      const pending = { sentAt, fail: reject }
      this.#pending.add(pending)
      const settle: Settle<T> = (error, value) => {
        if (!this.#pending.delete(pending)) {
          // After a reconnection the library sends what it could not send before.
          if (!error) late?.()
          return
        }
        if (!error || isVerdict(error.code)) this.#listener.answered(pending.sentAt, written)
        if (error) reject(requestError(error.code))
        else resolve(value)
      }
      try {
        limitRequestNumbers(this.#client)
        send(settle)
        this.#listener.sent()
      } catch (error) {
        this.#pending.delete(pending)
        reject(error instanceof Error ? error : new Error(String(error)))
      }
    })
  }
}

async function ifThere<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    if (isRequestError(error, code.noNode)) return undefined
    throw error
  }
}

/** Undefined for what the ACL denies this client. */
export async function ifAllowed<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    if (isRequestError(error, code.noAuth)) return undefined
    throw error
  }
}
