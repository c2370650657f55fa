// For adapters that keep locks on several servers in this package's layout. Not covered by semver.
import type { AcquireRequest, Finding, Renewal, RenewOutcome } from '@locks/core/adapter'
import { Connection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { repliedWith } from './errors.ts'
import { fieldOf } from './findings.ts'
import { settle } from './options.ts'
import type { RedisOptions } from './option-table.ts'
import { reportFindings } from './start-up-findings.ts'
import { Store } from './store.ts'
import type { Look, Refusal } from './store.ts'
import { pruneTokens } from './tokens.ts'
import { Watches } from './watches.ts'

export type { Look, Refusal } from './store.ts'

/** Identifies a server under any address. */
export interface Identity {
  /** Its run id. */
  readonly server: string
  /** Database and prefix of the locks on it. */
  readonly keyspace: string
}

/** One server, with locks in the layout of this package but without its queue. */
export class RedisNode {
  readonly #connection: Connection
  readonly #store: Store
  readonly #watches: Watches
  readonly #check: () => Promise<void>
  #checked: Promise<void> | undefined
  #identified: { readonly breaks: number; readonly identity: Promise<Identity | undefined> } | undefined

  constructor(options: RedisOptions) {
    const settings = settle(options)
    this.#connection = new Connection(settings)
    this.#store = new Store(this.#connection, settings)
    if (settings.serverSettings === 'ignore') this.#checked = Promise.resolve()
    this.#check = async () =>
      reportFindings(await this.#connection.primaries(), settings, this.#connection.cluster)
    this.#watches = new Watches(this.#connection)
  }

  async attempt(request: AcquireRequest): Promise<bigint | Refusal> {
    await this.#ready()
    return this.#store.attempt(request, false, (answer) => answer)
  }

  release(name: string, attemptId: string): Promise<'released' | 'not-held'> {
    return this.#store.release(name, attemptId)
  }

  keep(name: string, attemptId: string, keepMs: number): Promise<'released' | 'not-held'> {
    return this.#store.keep(name, attemptId, keepMs)
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    return this.#store.renew(renewals)
  }

  look(name: string): Promise<Look> {
    return this.#store.look(name)
  }

  raise(name: string, attemptId: string, fence: bigint, minted: bigint): Promise<boolean> {
    return this.#store.raise(name, attemptId, fence, minted)
  }

  /** Calls `found` with names that are held here, a page at a time, until it returns false. */
  names(found: (names: readonly string[]) => Promise<boolean>): Promise<void> {
    return this.#store.names(found)
  }

  /** Deletes fences of free names that were minted longer ago than `idleMs`, a page at a time. */
  prune(idleMs: number, names?: readonly string[]): AsyncGenerator<number, void> {
    return pruneTokens(this.#connection, idleMs, names)
  }

  diagnose(): Promise<readonly Finding[]> {
    return diagnose(this.#connection, 0)
  }

  /** Asked once per connection: a restarted server, or another at the same address, has a new one. */
  identity(): Promise<Identity | undefined> {
    const { breaks } = this.#connection
    if (this.#identified?.breaks === breaks) return this.#identified.identity
    const identity = this.#identify()
    this.#identified = { breaks, identity }
    identity.catch(() => {
      if (this.#identified?.identity === identity) this.#identified = undefined
    })
    return identity
  }

  /** Calls `wake` when the name is released, best-effort, until the returned function is called. */
  watch(name: string, wake: () => void): () => void {
    const { live, stop } = this.#watches.watch(this.#store.layout(name).redisson, wake)
    // The release may have come before the subscription: look again.
    void live.then((isLive) => isLive && wake())
    return stop
  }

  close(): void {
    this.#watches.close()
    this.#connection.close()
  }

  async #identify(): Promise<Identity | undefined> {
    const { db, prefix } = this.#connection
    const [primary] = await this.#connection.primaries()
    try {
      const server = fieldOf(String(await primary?.ask('info', 'server')), 'run_id')
      return server === undefined ? undefined : { server, keyspace: `${db}:${prefix}` }
    } catch (error) {
      if (repliedWith(error, 'NOPERM', 'ERR')) return undefined
      throw error
    }
  }

  /** Looks at the server's settings once; after a failure the next attempt looks again. */
  #ready(): Promise<void> {
    this.#checked ??= this.#check().catch((error: unknown) => {
      this.#checked = undefined
      throw error
    })
    return this.#checked
  }
}
