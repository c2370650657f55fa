import type { AdapterHost, LockError } from '@locks/core/adapter'
import { ACL, createClient, Id } from 'node-zookeeper-client'
import { Chores } from './chores.ts'
import { code, RequestError, unavailable } from './errors.ts'
import { failureOf, forgetCutReplies, harden, isOver, retire, stop } from './quirks.ts'
import { Session } from './session.ts'
import type { Settings } from './settings.ts'

/** How long a request waits for a connection before it fails. */
const CONNECT_MS = 3_000

/** Between two rounds through all servers the library pauses for up to this long. */
const SPIN_MS = 200

export interface KeeperListener {
  /** This session and all in it is gone. What may still be there is a chore. */
  ended(session: Session): void
  holding(session: Session): boolean
}

/** Keeps one session for a client, made when it is first needed and made anew when it was lost. */
export class Keeper {
  readonly #settings: Settings
  readonly #host: AdapterHost
  readonly #listener: KeeperListener
  #session: Session | undefined
  /** Of a given client: if its session was believed lost and comes back, there is something to remove. */
  readonly #chores = new Chores()
  /** Later its state says "disconnected" again. */
  #givenIsOver = false
  readonly #closing = new AbortController()
  /** Of sessions that were lost. */
  readonly #retiring = new Set<Promise<void>>()

  constructor(settings: Settings, host: AdapterHost, listener: KeeperListener) {
    this.#settings = settings
    this.#host = host
    this.#listener = listener
    this.#chores.drained = () => {
      if (this.#closed) this.#session?.end()
    }
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted
  }

  /** The session, if it is connected right now. */
  get connected(): Session | undefined {
    return this.#session?.connected === true ? this.#session : undefined
  }

  /** What to throw while there is no connected session. */
  unconnected(): LockError {
    const failure = this.#session && failureOf(this.#session.client)
    const { servers } = this.#settings
    const where = servers === '' ? 'ZooKeeper' : `ZooKeeper at ${servers}`
    const why = failure === undefined ? '' : `: ${failure.message}`
    return unavailable(`there is no connection to ${where}${why}`, failure)
  }

  /** A connected session. Rejects when there is none for a while. */
  async ready(): Promise<Session> {
    const { clock } = this.#host
    const giveUpAt = clock.now() + CONNECT_MS
    for (;;) {
      if (this.#closed) throw unavailable('the ZooKeeper session was closed')
      const session = (this.#session ??= this.#open())
      if (session.connected) return session
      const leftMs = giveUpAt - clock.now()
      if (leftMs <= 0) throw this.unconnected()
      await new Promise<void>((resolve) => {
        const timer = clock.timer(leftMs, done)
        const off = session.onChange(done)
        function done(): void {
          timer.cancel()
          off()
          resolve()
        }
      })
      if (session.endedBy === code.authFailed) throw new RequestError(code.authFailed)
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    const session = this.#session
    session?.end()
    const own = this.#settings.client === undefined ? session?.client : undefined
    await Promise.all([own && stop(own, this.#host.clock), ...this.#retiring])
  }

  #retire({ client, timeoutMs }: Session): void {
    const retiring = retire(client, this.#host.clock, timeoutMs, this.#closing.signal)
    this.#retiring.add(retiring)
    void retiring.finally(() => this.#retiring.delete(retiring))
  }

  #open(): Session {
    const { client: given, servers, sessionTimeoutMs, auth } = this.#settings
    let client = given
    if (client === undefined) {
      client = createClient(servers, { sessionTimeout: sessionTimeoutMs, spinDelay: SPIN_MS })
      harden(client)
      for (const { scheme, credentials } of auth) client.addAuthInfo(scheme, Buffer.from(credentials))
      client.connect()
    } else if (this.#givenIsOver || isOver(client))
      throw unavailable('the session of the given ZooKeeper client is over')
    const { clock, report } = this.#host
    const chores = given === undefined ? new Chores() : this.#chores
    const unlisten = given && forgetCutReplies(given)
    const session: Session = new Session(client, clock, aclOf(this.#settings), chores, {
      connection: (up) => report(up ? 'ok' : 'jeopardy'),
      ended: () => {
        unlisten?.()
        if (this.#session === session) this.#session = undefined
        this.#listener.ended(session)
        if (given === undefined) {
          if (!this.#closed) this.#retire(session)
          return
        }
        this.#givenIsOver = isOver(given)
        // Whoever was told of the end may have asked for the next already; a second one would be nobody's.
        if (!this.#givenIsOver && chores.pending) this.#session ??= this.#open()
      },
      holding: () => this.#listener.holding(session),
    })
    return session
  }
}

function aclOf({ acl }: Settings): readonly ACL[] {
  if (acl === 'open') return ACL.OPEN_ACL_UNSAFE
  if (acl === 'creator') return ACL.CREATOR_ALL_ACL
  return acl.map(({ scheme, id, permissions }) => new ACL(permissions, new Id(scheme, id)))
}
