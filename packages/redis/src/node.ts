// For adapters that keep locks on several servers in this package's layout. Not covered by semver.
import { once } from '@locks/core/adapter'
import type { AcquireRequest, Finding, Renewal, RenewOutcome } from '@locks/core/adapter'
import { Connection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { allowed, fieldOf } from './findings.ts'
import { settle } from './options.ts'
import type { RedisOptions } from './option-table.ts'
import type { Look, Refusal } from './record.ts'
import { Store } from './store.ts'
import { Subscriber } from './subscriber.ts'
import { pruneTokens } from './tokens.ts'

export type { Look, Refusal } from './record.ts'

/** Identifies a server under any address. */
export interface Identity {
  /** Its run id. */
  readonly server: string
  /** Database and prefix of the locks on it. */
  readonly keyspace: string
}

/** One server, with locks in the layout of this package but without its queue. Each method is one atomic step there. */
export interface RedisNode {
  attempt(request: AcquireRequest): Promise<bigint | Refusal>
  /** With `keepMs` the name stays taken there for that long. Repeated, it answers the same. */
  release(name: string, attemptId: string, keepMs?: number): Promise<'released' | 'not-held'>
  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]>
  look(name: string): Promise<Look>
  /** Whether the attempt still holds the name. If so, `fence` replaces the one `minted`, and later ones are higher. */
  raise(name: string, attemptId: string, fence: bigint, minted: bigint): Promise<boolean>
  /** Calls `found` with names that are held there, a page at a time, until it returns false. */
  names(found: (names: readonly string[]) => Promise<boolean>): Promise<void>
  /** Deletes fences of free names that were minted longer ago than `idleMs`, a page at a time. */
  prune(idleMs: number, names?: readonly string[]): AsyncGenerator<number, void>
  diagnose(): Promise<readonly Finding[]>
  /** Undefined if the server does not say. Asked once per connection: the next may lead to another server. */
  identity(): Promise<Identity | undefined>
  /** Calls `wake` when the name is released, best-effort, until the returned function is called. */
  watch(name: string, wake: () => void): () => void
  close(): void
}

export function openNode(options: RedisOptions): RedisNode {
  const settings = { ...settle(options), waitForReplicas: 0 }
  const connection = new Connection(settings)
  const store = new Store(connection, settings)
  const subscriber = new Subscriber(connection)
  let known = { breaks: connection.breaks, identity: once(identify) }

  async function identify(): Promise<Identity | undefined> {
    const [primary] = await connection.primaries()
    const info = await allowed(async () => String(await primary?.ask('info', 'server')))
    const server = info && fieldOf(info, 'run_id')
    return server === undefined ? undefined : { server, keyspace: `${connection.db}:${connection.prefix}` }
  }

  return {
    attempt: (request) => store.attempt(request, false, (answer) => answer),
    release: (...hold) => store.release(...hold),
    renew: (renewals) => store.renew(renewals),
    look: (name) => store.look(name),
    raise: (...fence) => store.raise(...fence),
    names: (found) => store.names(found),
    prune: (idleMs, names) => pruneTokens(connection, idleMs, names),
    diagnose: () => diagnose(connection, 0),
    identity() {
      const { breaks } = connection
      if (known.breaks !== breaks) known = { breaks, identity: once(identify) }
      return known.identity()
    },
    watch(name, wake) {
      const { redisson } = store.layout(name)
      const listener = (): void => wake()
      // The release may have come before the subscription: look again.
      void subscriber.subscribe(redisson, listener).then((live) => live && wake())
      return () => subscriber.unsubscribe(redisson, listener)
    },
    close() {
      subscriber.close()
      connection.close()
    },
  }
}
