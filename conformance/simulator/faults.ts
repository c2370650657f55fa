import { LONGEST_TTL_MS } from './choices.ts'
import type { SimulatedClient } from './client.ts'
import { calm } from './network.ts'
import type { Stage } from './stage.ts'
import { Task } from './task.ts'

const CALM_MS = 8_000
const STORM_MS = 6_000

/** Storms of faults with calms between them, long enough to show whether all goes on. */
export class Faults {
  readonly #stage: Stage
  readonly #tasksPerClient: number
  #over = false

  constructor(stage: Stage, tasksPerClient: number) {
    this.#stage = stage
    this.#tasksPerClient = tasksPerClient
  }

  start(places: number): void {
    for (let place = 0; place < places; place += 1) this.#startClient(place)
    this.#storm()
  }

  stop(): void {
    this.#over = true
  }

  #startClient(place: number): void {
    const client = this.#stage.startClient(place)
    for (let i = 0; i < this.#tasksPerClient; i += 1) void new Task(client, `t${i}`).run()
  }

  #storm(): void {
    const { world } = this.#stage
    const until = world.now + STORM_MS
    const strike = (): void => {
      if (this.#over) return
      if (world.now >= until) return void world.at(world.now + CALM_MS, () => this.#storm())
      this.#strike()
      world.at(world.now + this.#stage.random.between(10, 700), strike)
    }
    strike()
  }

  #strike(): void {
    const { clients, host, journal, random, world } = this.#stage
    const client = random.oneOf(clients)
    if (client === undefined || this.#stage.departed.includes(client)) return
    const { connection, process } = client
    const ms = random.between(5, random.pick(100, 600, 2 * LONGEST_TTL_MS))
    const note = (kind: string, until = world.now + ms): void => journal.fault(kind, world.now, until)
    if (random.chance(this.#stage.lossShare)) {
      note(`loss ${process.id}`)
      const maxDelayMs = random.pick(20, 200, LONGEST_TTL_MS)
      connection.quality = { lossRate: random.between(0, 0.4), duplicateRate: 0.3, maxDelayMs }
      world.at(world.now + ms, () => (connection.quality = calm))
      return
    }
    const roll = random.next()
    if (roll < 0.2) this.#replace(client, 'crash')
    else if (roll < 0.26) this.#replace(client, 'close')
    else if (roll < 0.5) {
      note(`pause ${process.id}`)
      process.pause(ms)
    } else if (roll < 0.7) {
      note(`cut ${process.id}`)
      connection.cut(ms)
    } else if (roll < 0.82) {
      note(`stalls ${process.id}`)
      process.stallChance = random.pick(0.001, 0.01)
      world.at(world.now + ms, () => (process.stallChance = 0))
    } else if (roll < 0.88) {
      note(`reset ${process.id}`, world.now)
      world.at(process.now, () => connection.reset(), process)
    } else if (roll < 0.94) {
      note('store pause')
      host.process.pause(ms)
    } else this.#restartStore(Math.min(ms, 500))
  }

  #restartStore(ms: number): void {
    const { clients, host, journal, world } = this.#stage
    journal.fault('store restart', world.now, world.now + ms)
    host.goDown()
    for (const { connection, process } of clients) world.at(process.now, () => connection.reset(), process)
    world.at(world.now + ms, () => host.comeUp())
  }

  /** Ends a client one way or the other; a new one takes its place soon. */
  #replace(client: SimulatedClient, how: 'crash' | 'close'): void {
    const { clients, random, world } = this.#stage
    const { process } = client
    const place = clients.indexOf(client)
    if (how === 'close') world.at(process.now, () => void client.close(), process)
    else client.crash()
    this.#stage.departed.push(client)
    world.at(process.now + random.between(1, 500), () => void (this.#over || this.#startClient(place)))
  }
}
