import { isIP } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Commands, Sentinel, SentinelConnection, Sentinels } from './drivers/driver.ts'
import { opinionOf } from './opinions.ts'
import type { Opinion } from './opinions.ts'

/**
 * Published by the Sentinel that leads a failover: just before it promotes a replica, and when that did not become a
 * primary. The other `-failover-abort-…` are about failovers that have not got as far.
 */
const PROMOTES = '+failover-state-send-slaveof-noone'
const GIVES_UP = '-failover-abort-slave-timeout'
/** Published by every Sentinel when it learns of the new primary: `name old-host old-port new-host new-port`. */
const SWITCHES = '+switch-master'

/** A failover that takes longer may not end, since the Sentinel that led it is gone. All are asked from then on. */
const DOUBT_MS = 60_000
/** How often the Sentinels are asked again about a suspected connection. */
const AGAIN_MS = 500
const GATHER_MS = 5

/** A server that is about to be replaced, or was. */
interface Doubt {
  /** Of the client's connection. Undefined if there was none. */
  readonly address: string | undefined
  /** The Sentinel that may give it up. Undefined when that is not enough. */
  readonly leader: Sentinel | undefined
  /** The Sentinels that reported it. */
  readonly reportedBy: readonly Sentinel[]
  /** When the Sentinels are asked whether the connection is right after all. */
  readonly askAt: number
}

/**
 * Learns from the Sentinels when a primary is being replaced. Once a replica is promoted, the old primary still
 * confirms everything, for some ten seconds in a planned failover, and the new one knows nothing of it. A lease that
 * only the old one has renewed ends early on the new one, which gives the lock to the next client. So from the
 * promotion on, replies of the old primary do not count. The Sentinel publishes the promotion before it sends it. A
 * later connection has missed that message, so for each new one the Sentinels are asked whether a failover is under
 * way and where it leads. The doubt about a primary ends when the connection leads elsewhere, when the Sentinel that
 * leads the failover gives it up, or when most Sentinels say that the connection is right: an old primary that is cut
 * off from them is never demoted.
 */
export class Failovers {
  readonly #link: Commands
  readonly #sentinels: Sentinels
  readonly #onSwitch: () => void
  readonly #connections: readonly SentinelConnection[]
  readonly #stopListening: () => void
  #doubt: Doubt | undefined
  /** According to the Sentinels, the present connection may lead to a primary that is being replaced. */
  #suspected = false
  #looking: Promise<void> | undefined
  #again: NodeJS.Timeout | undefined
  #asking: NodeJS.Timeout | undefined
  #gathering = false
  #closed = false
  #lastSwitch = ''
  /** The last connection that clients were sent away from, since it leads to the wrong server. */
  #left: object | undefined

  /** Calls `onSwitch` when clients are sent to another primary. */
  constructor(link: Commands, sentinels: Sentinels, onSwitch: () => void) {
    this.#link = link
    this.#sentinels = sentinels
    this.#onSwitch = onSwitch
    this.#connections = sentinels.all().map((sentinel) => {
      const connection = sentinel.connect()
      const received = (event: string, text: string): void => this.#received(sentinel, event, text)
      connection.listen([PROMOTES, SWITCHES, GIVES_UP], received, () => this.#look())
      return connection
    })
    this.#stopListening = sentinels.onConnect(() => this.#look())
    this.#look()
  }

  /** Undefined once the Sentinels have been asked about the present connection; until then its replies do not count. */
  get looking(): Promise<void> | undefined {
    return this.#looking
  }

  /** Whether the client is connected to a primary that is being replaced. */
  get underWay(): boolean {
    return this.#suspected || this.#presentDoubt !== undefined
  }

  get #presentDoubt(): Doubt | undefined {
    const at = this.#sentinels.at()
    // Without a connection, the next one may lead there again.
    if (at !== undefined && at !== this.#doubt?.address) this.#doubt = undefined
    return this.#doubt
  }

  close(): void {
    this.#stopListening()
    clearTimeout(this.#again)
    clearTimeout(this.#asking)
    this.#looking = undefined
    this.#closed = true
    for (const each of this.#connections) each.close()
  }

  #received(sentinel: Sentinel, event: string, text: string): void {
    // About a primary: `master name …`. About a replica: `slave … @ name …`.
    const [, host = '', port = '', promotedPort = ''] = text.split(' ')
    const { name } = this.#sentinels
    const concerned = text.startsWith(`master ${name} `) || text.includes(` @ ${name} `)
    if (event === PROMOTES && concerned) {
      // It came late: the client has gone to the promoted replica, `slave name host port @ …`, before it was read.
      if (this.#isAt(port, promotedPort)) return
      const doubt = this.#presentDoubt
      this.#doubtPrimary(sentinel, doubt === undefined || doubt.leader === sentinel)
    } else if (event === GIVES_UP && concerned) {
      if (this.#doubt?.leader === sentinel) this.#doubt = undefined
    } else if (event === SWITCHES && text.startsWith(`${name} `)) {
      if (this.#isAt(host, port)) this.#doubtPrimary(sentinel, false)
      // Every Sentinel publishes it, some of them after the client has left the old primary.
      if (text === this.#lastSwitch) return
      this.#lastSwitch = text
      // The old primary may be known to the Sentinels by another address.
      this.#look()
      this.#onSwitch()
    }
  }

  #isAt(host: string, port: string): boolean {
    return this.#sentinels.at() === this.#sentinels.mapped(`${host}:${port}`)
  }

  #doubtPrimary(sentinel: Sentinel, leads: boolean): void {
    const reportedBy = [...new Set(this.#presentDoubt?.reportedBy).add(sentinel)]
    const leader = leads ? sentinel : undefined
    const address = this.#sentinels.at()
    const doubt = (this.#doubt = { address, leader, reportedBy, askAt: performance.now() + DOUBT_MS })
    clearTimeout(this.#asking)
    this.#asking = setTimeout(() => this.#look(), DOUBT_MS).unref()
    void this.#askBack(doubt)
  }

  /**
   * A message may be read after a later failover has made the same server the primary again. So the doubt also ends
   * when every Sentinel that reported it says that this server is the primary. The others may not know of a failover.
   */
  async #askBack(doubt: Doubt): Promise<void> {
    for (; this.#presentDoubt === doubt && !this.#closed; await pause(AGAIN_MS, undefined, { ref: false })) {
      const said = await Promise.all(doubt.reportedBy.map((each) => opinionOf(each, this.#sentinels.name)))
      const isBack = said.every(
        (one) => one?.address !== undefined && this.#sentinels.mapped(one.address) === doubt.address,
      )
      if (isBack && this.#doubt === doubt) this.#doubt = undefined
    }
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
      this.#suspected = place === 'doubtful' || place === 'wrong'
      const isDue = performance.now() >= (this.#presentDoubt?.askAt ?? Infinity)
      if (isDue && place === 'confirmed') this.#doubt = undefined
      // Without a connection, the next one is asked about.
      else if (this.#suspected || (isDue && this.#sentinels.at() !== undefined))
        this.#again = setTimeout(() => this.#look(), AGAIN_MS).unref()
      if (place !== 'wrong' || this.#left === this.#sentinels.connection()) return
      this.#left = this.#sentinels.connection()
      this.#onSwitch()
    }))
  }

  /**
   * Whether the client is connected where the Sentinels want it to be; `confirmed` if most of them answered, `wrong`
   * when it has to leave.
   */
  async #ask(): Promise<'confirmed' | 'right' | 'doubtful' | 'wrong'> {
    if (this.#closed) return 'right'
    const { name } = this.#sentinels
    const asked = await Promise.all(this.#sentinels.all().map((each) => opinionOf(each, name)))
    const answers = asked.filter((one) => one !== undefined)
    const trusted = newest(answers)
    const right = answers.length > asked.length / 2 ? 'confirmed' : 'right'
    if (trusted.length === 0) return 'right'
    // Without a connection there is nothing to suspect; the next one is asked about.
    const at = this.#sentinels.at()
    const places = trusted.map(({ address }) => this.#sentinels.mapped(address))
    if (at === undefined) return 'right'
    if (places.includes(at)) return right
    const info = await this.#link.send('info', ['server'], undefined).catch(() => '')
    const [, runId] = /^run_id:(\w+)/m.exec(String(info)) ?? []
    if (trusted.some((one) => one.runId !== undefined && one.runId === runId)) return right
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
