import { shareListener } from '@locks/core/adapter'
import type { Redis } from 'ioredis'
import { isIP } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { mapped, openSentinel, opinionOf, sentinelsOf } from './drivers/ioredis-sentinels.ts'
import type { Opinion } from './drivers/ioredis-sentinels.ts'
import { addressOf } from './drivers/ioredis.ts'

/** Published by the Sentinel that leads a failover: just before it promotes a replica, and when it gives up. */
const PROMOTES = '+failover-state-send-slaveof-noone'
const GIVES_UP = [
  '-failover-abort-slave-timeout',
  '-failover-abort-no-good-slave',
  '-failover-abort-not-elected',
]
/** Published by every Sentinel when it learns of the new primary: `name old-host old-port new-host new-port`. */
const SWITCHES = '+switch-master'

/** A failover that takes longer will not end: the Sentinel that led it is gone. */
const FORGET_MS = 60_000
/** How often the Sentinels are asked again about a suspected connection. */
const AGAIN_MS = 500
const GATHER_MS = 5

/**
 * Learns from the Sentinels when a primary is being replaced. Once a replica is promoted, the old primary still
 * confirms everything, for some ten seconds in a planned failover, and the new one knows nothing of it. A lease that
 * only the old one has renewed ends early on the new one, which gives the lock to the next client. So from the
 * promotion on, replies of the old primary do not count. The Sentinel publishes the promotion before it sends it. A
 * later connection has missed that message, so for each new one the Sentinels are asked whether a failover is under
 * way and where it leads.
 */
export class Failovers {
  readonly #client: Redis
  readonly #name: string
  readonly #onSwitch: () => void
  readonly #sentinels: readonly Redis[]
  readonly #stopListening: () => void
  /** The server that is about to be replaced, by the address of the client's connection. */
  #replaced: { readonly address: string | undefined; readonly at: number } | undefined
  /** According to the Sentinels, the present connection may lead to a primary that is being replaced. */
  #suspected = false
  #looking: Promise<void> | undefined
  #again: NodeJS.Timeout | undefined
  #gathering = false
  #closed = false
  #lastSwitch = ''

  /** Calls `onSwitch` when clients are sent to another primary. */
  constructor(client: Redis, name: string, onSwitch: () => void) {
    this.#client = client
    this.#name = name
    this.#onSwitch = onSwitch
    this.#sentinels = sentinelsOf(client.options).map((options) => {
      const sentinel = openSentinel(options)
      sentinel.on('message', (event: string, text: string) => this.#received(event, text))
      // What was published while it was away is not repeated.
      sentinel.on('ready', () => this.#look())
      // ioredis retries until the connection is closed, and rejects then.
      sentinel.subscribe(PROMOTES, SWITCHES, ...GIVES_UP).catch(() => undefined)
      return sentinel
    })
    this.#stopListening = shareListener(client, 'connect', () => this.#look())
    this.#look()
  }

  /** Undefined once the Sentinels have been asked about the present connection; until then its replies do not count. */
  get looking(): Promise<void> | undefined {
    return this.#looking
  }

  /** Whether the client is connected to a primary that is being replaced. */
  get underWay(): boolean {
    if (this.#suspected) return true
    if (this.#replaced === undefined) return false
    const { address, at } = this.#replaced
    if (addressOf(this.#client) !== address || performance.now() > at + FORGET_MS) this.#replaced = undefined
    return this.#replaced !== undefined
  }

  close(): void {
    this.#stopListening()
    clearTimeout(this.#again)
    this.#looking = undefined
    this.#closed = true
    for (const sentinel of this.#sentinels) sentinel.disconnect()
  }

  #received(event: string, text: string): void {
    // About a primary: `master name …`. About a replica: `slave … @ name …`.
    const [, host = '', port = ''] = text.split(' ')
    const concerned = text.startsWith(`master ${this.#name} `) || text.includes(` @ ${this.#name} `)
    if (event === PROMOTES && concerned) this.#doubt()
    else if (GIVES_UP.includes(event) && concerned) this.#replaced = undefined
    else if (event === SWITCHES && text.startsWith(`${this.#name} `)) {
      if (addressOf(this.#client) === `${host}:${port}`) this.#doubt()
      // Every Sentinel publishes it, some of them after the client has left the old primary.
      if (text === this.#lastSwitch) return
      this.#lastSwitch = text
      this.#onSwitch()
    }
  }

  #doubt(): void {
    this.#replaced = { address: addressOf(this.#client), at: performance.now() }
  }

  /** Connections come in groups: those made within a few milliseconds are asked about together. */
  #look(): void {
    if (this.#gathering || this.#closed) return
    this.#gathering = true
    clearTimeout(this.#again)
    const look = (this.#looking = pause(GATHER_MS, undefined, { ref: false }).then(async () => {
      this.#gathering = false
      const place = await this.#ask()
      // A newer connection is asked about, or this was closed.
      if (this.#looking !== look) return
      this.#looking = undefined
      this.#suspected = place !== 'right'
      if (this.#suspected) this.#again = setTimeout(() => this.#look(), AGAIN_MS).unref()
      if (place === 'wrong') this.#onSwitch()
    }))
  }

  /** Whether the client is connected where the Sentinels want it to be; `wrong` when it has to leave. */
  async #ask(): Promise<'right' | 'doubtful' | 'wrong'> {
    if (this.#closed) return 'right'
    const { options } = this.#client
    const asked = await Promise.all(sentinelsOf(options).map((each) => opinionOf(each, this.#name)))
    const trusted = newest(asked.filter((one) => one !== undefined))
    if (trusted.length === 0) return 'right'
    // Without a connection there is nothing to suspect; the next one is asked about.
    const at = addressOf(this.#client)
    const places = trusted.map(({ address }) => mapped(address, options))
    if (at === undefined || places.includes(at)) return 'right'
    const info = await this.#client.info('server').catch(() => '')
    const [, runId] = /^run_id:(\w+)/m.exec(info) ?? []
    if (trusted.some((one) => one.runId !== undefined && one.runId === runId)) return 'right'
    // A host name may be that of the present server, restarted, whose new run id the Sentinels do not know yet.
    return trusted.some(({ replacing }) => replacing) || !places.every(isNumeric) ? 'doubtful' : 'wrong'
  }
}

/** The most recent opinions: of the leader while a failover is under way, otherwise of the highest epoch. */
function newest(opinions: readonly Opinion[]): readonly Opinion[] {
  const leaders = opinions.filter(({ replacing }) => replacing)
  const epoch = Math.max(...opinions.map((one) => one.epoch))
  return leaders.length > 0 ? leaders : opinions.filter((one) => one.epoch === epoch)
}

function isNumeric(place: string | undefined): boolean {
  return place !== undefined && isIP(place.slice(0, place.lastIndexOf(':'))) !== 0
}
