import { Wake } from '@locks/core/adapter'
import type { AdapterHost, LockError } from '@locks/core/adapter'
import { ACL, createClient, Id } from 'node-zookeeper-client'
import { Chores } from './chores.ts'
import { code, errors, requestError } from './errors.ts'
import { failureOf, forgetCutReplies, harden, isOver, retire, stop } from './quirks.ts'
import { Session } from './session.ts'
import type { Settings } from './settings.ts'

/** How long a call waits for a connection before it fails. */
const CONNECT_MS = 3_000

/** The longest pause of the library between two rounds through all servers. */
const SPIN_MS = 200

export interface SessionManagerListener {
  /** The session is lost, and everything in it. Nodes that may still exist are removed by a chore. */
  ended(session: Session): void
  /** Whether this session holds a lock. */
  holding(session: Session): boolean
}

/** Keeps one session for a client: opened when it is first needed, and replaced when it is lost. */
export class SessionManager {
  readonly #settings: Settings
  readonly #host: AdapterHost
  readonly #listener: SessionManagerListener
  #session: Session | undefined
  /** Of a given client: its session may come back after we gave it up, with nodes that must go. */
  readonly #chores = new Chores()
  /** Remembered, since the state of a given client returns to "disconnected". */
  #givenIsOver = false
  readonly #closing = new AbortController()
  /** Sessions that were lost and are still being closed. */
  readonly #retiring = new Set<Promise<void>>()

  constructor(settings: Settings, host: AdapterHost, listener: SessionManagerListener) {
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
    return errors.unavailable(`there is no connection to ${where}${why}`, failure)
  }

  /** A connected session. Rejects if there is none for a while. */
  async ready(): Promise<Session> {
    const { clock } = this.#host
    const giveUpAt = clock.now() + CONNECT_MS
    for (;;) {
      if (this.#closed)
        throw errors.unavailable(
          'the ZooKeeper session was closed, which ended all its holds; make a new client',
        )
      const session = (this.#session ??= this.#open())
      if (session.connected) return session
      const leftMs = giveUpAt - clock.now()
      if (leftMs <= 0) throw this.unconnected()
      const wake = new Wake(clock)
      const off = session.onChange(() => wake.wake())
      await wake.sleep(leftMs)
      off()
      if (session.endedBy === code.authFailed) throw requestError(code.authFailed)
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
      throw errors.invalid(
        'the session of the given client is over, so it can hold no lock; pass a new client',
      )
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
        // The listener may have opened the next session already; there must be only one.
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
