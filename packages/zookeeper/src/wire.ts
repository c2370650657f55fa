import type { Clock } from '@locks/core/adapter'
import { CreateMode } from 'node-zookeeper-client'
import type { ACL, Client, Exception, Stat } from 'node-zookeeper-client'
import { code, isVerdict, RequestError } from './errors.ts'
import { limitRequestNumbers, unwatch, withoutRetries } from './quirks.ts'

export interface NodeData {
  readonly data: Buffer
  readonly stat: Stat
}

export interface Refusal {
  readonly step: 'made' | 'removed'
  readonly code: number
}

export interface WireListener {
  sent(): void
  /** A request was answered; `written` when the leader had to know of it. */
  heard(sentAt: number, written: boolean): void
}

interface Pending {
  readonly sentAt: number
  readonly fail: (error: RequestError) => void
}

type Settle<T> = (error: Exception | null, value: T) => void

/**
 * The library's requests as promises. A connection that breaks fails all that are under way, also
 * those the library forgets; what the server did about them is then unknown.
 */
export class Wire {
  readonly #client: Client
  readonly #clock: Clock
  readonly #acl: readonly ACL[]
  readonly #pending = new Set<Pending>()
  readonly #listener: WireListener
  #up = false

  constructor(client: Client, clock: Clock, acl: readonly ACL[], listener: WireListener) {
    this.#client = withoutRetries(client)
    this.#clock = clock
    this.#acl = acl
    this.#listener = listener
  }

  /** Since when the oldest request waits for its answer. */
  get oldest(): number | undefined {
    for (const { sentAt } of this.#pending) return sentAt
    return undefined
  }

  createDirectory(path: string): Promise<string> {
    return this.#request(true, (done) =>
      this.#client.create(path, Buffer.alloc(0), this.#acl, CreateMode.PERSISTENT, done),
    )
  }

  /** Answers the path with its sequence. `late` is told of a node that came into being after the creation was given up. */
  createMember(prefix: string, data: Buffer, late: () => void): Promise<string> {
    return this.#request(
      true,
      (done) => this.#client.create(prefix, data, this.#acl, CreateMode.EPHEMERAL_SEQUENTIAL, done),
      late,
    )
  }

  remove(path: string): Promise<void> {
    return this.#request(true, (done) => this.#client.remove(path, (error) => done(error, undefined)))
  }

  exists(path: string): Promise<Stat | null> {
    return this.#request(false, (done) => this.#client.exists(path, done))
  }

  /** With a watcher, fails and leaves no watch behind when the node is missing, unlike `exists`. */
  data(path: string, watcher?: () => void): Promise<NodeData> {
    return this.#request(
      false,
      (done) => {
        const both = (error: Exception | null, data: Buffer, stat: Stat): void => done(error, { data, stat })
        if (watcher === undefined) this.#client.getData(path, both)
        else this.#client.getData(path, watcher, both)
      },
      watcher && (() => this.unwatch(path, watcher)),
    )
  }

  unwatch(path: string, watcher: () => void): void {
    unwatch(this.#client, path, watcher)
  }

  children(path: string): Promise<readonly string[]> {
    return this.#request(false, (done) => this.#client.getChildren(path, done))
  }

  /**
   * Asks the leader whether these nodes exist; answers the index of one that does not. Unlike a
   * read, which any one server answers from what it knows, this is as new as the ensemble.
   */
  missing(paths: readonly string[]): Promise<number | undefined> {
    return this.#request(true, (done) => {
      let transaction = this.#client.transaction()
      for (const path of paths) transaction = transaction.check(path)
      transaction.commit((error, results) => {
        const index = results?.findIndex(({ err = 0 }) => err !== 0) ?? -1
        if (error?.code === code.noNode && index >= 0) done(null, index)
        else done(error, undefined)
      })
    })
  }

  /**
   * Asks the leader whether a node could be made and removed again. The last step of the transaction
   * must fail, so that nothing is changed.
   */
  rehearse(path: string): Promise<Refusal | undefined> {
    return this.#request(true, (done) =>
      this.#client
        .transaction()
        .create(path, Buffer.alloc(0), this.#acl, CreateMode.PERSISTENT)
        .remove(path)
        .check(path)
        .commit((error, results) => {
          const index = results?.findIndex(({ err = 0 }) => err !== 0) ?? -1
          if (!error || index < 0) done(error, undefined)
          else
            done(null, index > 1 ? undefined : { step: index === 0 ? 'made' : 'removed', code: error.code })
        }),
    )
  }

  /** There is a connection. Without one nothing is sent: the library would keep it for who knows when. */
  connected(): void {
    this.#up = true
  }

  /** Fails everything under way: the connection is gone. */
  broke(failed: number = code.connectionLoss): void {
    this.#up = false
    const pending = [...this.#pending]
    this.#pending.clear()
    for (const { fail } of pending) fail(new RequestError(failed))
  }

  #request<T>(written: boolean, send: (done: Settle<T>) => void, late?: () => void): Promise<T> {
    if (!this.#up) return Promise.reject(new RequestError(code.connectionLoss))
    return new Promise((resolve, reject) => {
      const pending = { sentAt: this.#clock.now(), fail: reject }
      this.#pending.add(pending)
      const settle: Settle<T> = (error, value) => {
        if (!this.#pending.delete(pending)) {
          // The library sends what it could not send before as soon as it is connected again.
          if (!error) late?.()
          return
        }
        if (!error || isVerdict(error.code)) this.#listener.heard(pending.sentAt, written)
        if (error) reject(new RequestError(error.code))
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
