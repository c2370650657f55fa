import { isLockError, memoryGuard } from '@locks/core'
import type { Guard, LockErrorCode } from '@locks/core'
import type { Adapter } from '@locks/core/adapter'
import type { Manner } from './choices.ts'
import { SimulatedClient } from './client.ts'
import { Journal } from './journal.ts'
import type { Random } from './random.ts'
import { StoreHost } from './store-host.ts'
import { Task } from './task.ts'
import type { Identity } from './tracked-lease.ts'
import type { Process } from './virtual-clock.ts'
import { World } from './world.ts'

/** What a broken variant breaks. */
export interface Sabotage {
  readonly store?: (adapter: Adapter) => Adapter
  readonly guard?: () => Guard
  readonly uncheckedWrites?: boolean
  readonly datesByReceipt?: boolean
}

/** What the parts of one run share. */
export class Stage {
  readonly world: World
  readonly random: Random
  readonly journal = new Journal()
  readonly host: StoreHost
  readonly sabotage: Sabotage
  readonly storeTimeoutMs = 800
  readonly names: readonly string[]
  readonly manner: Manner
  /** Of the faults. */
  readonly lossShare: number
  /** The clients that are running, one per place. */
  readonly clients: SimulatedClient[] = []
  /** Those that another one took the place of, crashed or closed. */
  readonly departed: SimulatedClient[] = []
  /** Tasks only finish what they began. */
  ending = false
  readonly #guards = new Map<string, Guard>()
  #started = 0

  constructor(seed: number, sabotage: Sabotage) {
    this.world = new World(seed)
    this.random = this.world.random.fork()
    this.sabotage = sabotage
    this.host = new StoreHost(this.world, this.random.pick('handoff', 'notify', 'poll'), sabotage.store)
    this.manner = { extendShare: this.random.pick(0.1, 0.4), slowness: this.random.pick(1, 1, 10) }
    this.lossShare = this.random.pick(0.2, 0.2, 0.8)
    this.names = ['a', 'b', 'c', 'd'].slice(0, this.random.pick(2, 3, 4))
  }

  /** Puts a new process into that place. */
  startClient(place: number): SimulatedClient {
    const client = new SimulatedClient(this, `p${place}.${++this.#started}`)
    this.clients[place] = client
    return client
  }

  /** Passes a serialised lease on to any client, now and then to two: one of them at most may go on with it. */
  handOver(process: Process, text: string, who: Identity): void {
    const { random, world } = this
    let heirs = 0
    for (let copies = random.chance(0.2) ? 2 : 1; copies > 0; copies -= 1) {
      const client = random.oneOf(this.clients)
      if (client === undefined) return
      const receive = async (): Promise<void> => {
        if (!client.running || !(await new Task(client, `successor of ${who.task}`).resume(text, who))) return
        heirs += 1
        if (heirs > 1)
          this.journal.problem('exclusion', `two clients went on with one lease of ${who.process}`)
      }
      world.at(process.now + random.between(1, 300), () => void receive(), client.process)
    }
  }

  /** Sends a write under `fence` to the resource that `name` protects; it may take long to arrive. */
  write(process: Process, name: string, fence: bigint): void {
    const { random, world } = this
    const delayMs = random.chance(0.05) ? random.between(0, 2_000) : random.between(0, 5)
    world.at(process.now + delayMs, () => void this.#arrive(name, fence))
  }

  expectCode(error: unknown, call: string, ...codes: readonly LockErrorCode[]): void {
    if (isLockError(error) && codes.includes(error.code)) return
    this.journal.problem('outcomes', `${call} failed unexpectedly: ${String(error)}`)
  }

  async #arrive(name: string, fence: bigint): Promise<void> {
    const { journal, sabotage, world } = this
    const guard = this.#guards.get(name) ?? (sabotage.guard ?? memoryGuard)()
    this.#guards.set(name, guard)
    const answer = { process: 'resource', t: world.now, name, fence }
    try {
      await guard.run(fence, () => journal.record({ ...answer, type: 'resource-accepted' }))
    } catch (error) {
      this.expectCode(error, 'guard.run', 'LOCK_LOST')
      journal.record({ ...answer, type: 'resource-rejected' })
    }
  }
}
