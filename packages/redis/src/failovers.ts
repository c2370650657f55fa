import { Redis } from 'ioredis'
import type { RedisOptions as ConnectionOptions } from 'ioredis'
import { loosen } from './loosen.ts'

/** Published by the Sentinel that leads a failover: just before it promotes a replica, and when it gives up. */
const PROMOTES = '+failover-state-send-slaveof-noone'
const GIVES_UP = '-failover-abort-slave-timeout'
/** Published by every Sentinel as it learns of it: `name old-host old-port new-host new-port`. */
const SWITCHES = '+switch-master'

/** A failover that is not over by then will not be: the Sentinel that led it is gone. */
const FORGET_MS = 60_000

/**
 * Learns from the Sentinels when a primary is being replaced. Once a replica is promoted, the old primary still
 * confirms everything, for some ten seconds in a planned failover, and the new one knows nothing of it. A lease that
 * only the old one has renewed ends early on the new one, which gives the lock to the next client. So from the
 * promotion on, what a connection to the old primary says does not count. The Sentinel publishes the promotion
 * before it sends it.
 */
export class Failovers {
  readonly #client: Redis
  readonly #onSwitch: () => void
  readonly #ears: readonly Redis[]
  /** The address that the client was connected to when its server was about to be replaced. */
  #replaced: { readonly address: string; readonly at: number } | undefined

  #lastSwitch = ''

  /** Calls `onSwitch` when clients are sent to another primary. */
  constructor(client: Redis, name: string, onSwitch: () => void) {
    this.#client = client
    this.#onSwitch = onSwitch
    this.#ears = (client.options.sentinels ?? []).map(({ host, port }) => {
      const ear = new Redis({ ...sentinelOptions(client.options, host, port), replyMapping: 'legacy' })
      loosen(ear)
      ear.on('error', () => undefined)
      ear.on('message', (event: string, text: string) => this.#heard(event, text, name))
      // Rejected when it is closed; until then it is tried again.
      ear.subscribe(PROMOTES, GIVES_UP, SWITCHES).catch(() => undefined)
      return ear
    })
  }

  /** Whether the client is connected to a primary that is being replaced. */
  get underWay(): boolean {
    if (this.#replaced === undefined) return false
    const { address, at } = this.#replaced
    if (addressOf(this.#client) !== address || performance.now() > at + FORGET_MS) this.#replaced = undefined
    return this.#replaced !== undefined
  }

  close(): void {
    for (const ear of this.#ears) ear.disconnect()
  }

  #heard(event: string, text: string, name: string): void {
    // About a primary: `master name …`. About a replica: `slave … @ name …`.
    const [, host = '', port = ''] = text.split(' ')
    const concerned = text.startsWith(`master ${name} `) || text.includes(` @ ${name} `)
    if (event === PROMOTES && concerned) this.#doubt(addressOf(this.#client))
    else if (event === GIVES_UP && concerned) this.#replaced = undefined
    else if (event === SWITCHES && text.startsWith(`${name} `)) {
      if (addressOf(this.#client) === `${host}:${port}`) this.#doubt(`${host}:${port}`)
      // The other Sentinels tell of it too, some of them when the client has left the old primary.
      if (text === this.#lastSwitch) return
      this.#lastSwitch = text
      this.#onSwitch()
    }
  }

  #doubt(address: string): void {
    this.#replaced = { address, at: performance.now() }
  }
}

/** Where the connection leads by its own word: the Sentinels may know that server by another address. */
function addressOf({ stream }: Partial<Pick<Redis, 'stream'>>): string {
  return `${stream?.remoteAddress}:${stream?.remotePort}`
}

function sentinelOptions(
  { sentinelUsername, sentinelPassword, sentinelTLS, family }: ConnectionOptions,
  host = 'localhost',
  port = 26_379,
): ConnectionOptions {
  return {
    host,
    port,
    ...(family !== undefined && { family }),
    ...(sentinelUsername && { username: sentinelUsername }),
    ...(sentinelPassword && { password: sentinelPassword }),
    ...(sentinelTLS && { tls: sentinelTLS }),
    enableReadyCheck: false,
    maxRetriesPerRequest: null,
    keepAlive: 10_000,
    retryStrategy: (times) => Math.min(50 * times, 1_000),
  }
}
