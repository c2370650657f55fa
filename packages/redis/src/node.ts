// For adapters that keep locks on several servers, each in this package's layout. Not covered by semver.
import type { AcquireRequest, Finding, Renewal, RenewOutcome } from '@locks/core/adapter'
import { isCluster } from './client.ts'
import { Connection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { repliedWith } from './errors.ts'
import { fieldOf } from './findings.ts'
import { Listener } from './listener.ts'
import { settle } from './options.ts'
import type { RedisOptions } from './option-table.ts'
import { checkServer } from './server-check.ts'
import { Store } from './store.ts'
import { forgetTokens } from './tokens.ts'
import type { Look, Refusal } from './store.ts'

export type { Look, Refusal } from './store.ts'

/** What tells a server from others, under whatever address. */
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
  readonly #listener: Listener
  readonly #watchers = new Map<string, Set<() => void>>()
  readonly #check: () => Promise<void>
  #checked: Promise<void> | undefined
  #identified: { readonly breaks: number; readonly identity: Promise<Identity | undefined> } | undefined

  constructor(options: RedisOptions) {
    const settings = settle(options)
    this.#connection = new Connection(settings)
    this.#store = new Store(this.#connection, settings)
    if (settings.serverSettings === 'ignore') this.#checked = Promise.resolve()
    this.#check = async () =>
      checkServer(await this.#connection.primaries(), settings, this.#connection.cluster)
    this.#listener = new Listener(this.#connection, {
      message: (channel) => this.#watchers.get(channel)?.forEach((wake) => wake()),
      gap: (channels) => {
        for (const channel of channels) this.#watchers.get(channel)?.forEach((wake) => wake())
      },
    })
  }

  async attempt(request: AcquireRequest): Promise<bigint | Refusal> {
    await this.#ready()
    return this.#store.attempt(request, false, (answer) => answer)
  }

  free(name: string, attemptId: string): Promise<'released' | 'not-held'> {
    return this.#store.free(name, attemptId)
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

  /** Calls `found` with names that are held here, a page at a time, until it answers false. */
  names(found: (names: readonly string[]) => Promise<boolean>): Promise<void> {
    return this.#store.names(found)
  }

  /** Deletes fences of free names that were minted longer ago than `idleMs`, a page at a time. */
  forget(idleMs: number, names?: readonly string[]): AsyncGenerator<number, void> {
    return forgetTokens(this.#connection, idleMs, names)
  }

  diagnose(): Promise<readonly Finding[]> {
    return diagnose(this.#connection, 0)
  }

  /** Asked once per connection: a server that was restarted, or another at the same address, has another. */
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

  /** Calls `wake` when the name is released, as far as that is heard, until the returned function is called. */
  watch(name: string, wake: () => void): () => void {
    const channel = this.#store.layout(name).redisson
    let watchers = this.#watchers.get(channel)
    if (watchers === undefined) this.#watchers.set(channel, (watchers = new Set()))
    watchers.add(wake)
    // The release may have come before the subscription: look again.
    if (!this.#listener.hears(channel)) void this.#listener.listen(channel).then((live) => live && wake())
    const mine = watchers
    return () => {
      mine.delete(wake)
      if (mine.size > 0 || this.#watchers.get(channel) !== mine) return
      this.#watchers.delete(channel)
      this.#listener.ignore(channel)
    }
  }

  close(): void {
    this.#listener.close()
    this.#connection.close()
  }

  async #identify(): Promise<Identity | undefined> {
    const { client, prefix } = this.#connection
    const [primary] = await this.#connection.primaries()
    try {
      const server = fieldOf(String(await primary?.ask('info', 'server')), 'run_id')
      const db = isCluster(client) ? 0 : (client.options.db ?? 0)
      return server === undefined ? undefined : { server, keyspace: `${db}:${prefix}` }
    } catch (error) {
      if (repliedWith(error, 'NOPERM', 'ERR')) return undefined
      throw error
    }
  }

  /** Looks at the settings of the server once; a failure lets the next attempt look again. */
  #ready(): Promise<void> {
    this.#checked ??= this.#check().catch((error: unknown) => {
      this.#checked = undefined
      throw error
    })
    return this.#checked
  }
}
