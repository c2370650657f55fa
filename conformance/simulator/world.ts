import { EventQueue } from './event-queue.ts'
import type { Occurrence } from './event-queue.ts'
import { Random } from './random.ts'
import type { Process } from './virtual-clock.ts'

const STEPS_PER_TURN = 64

/** One true time for everything that is simulated. Nothing in it waits for a real timer. */
export class World {
  readonly random: Random
  readonly #queue = new EventQueue()
  #now = 0

  constructor(seed: number) {
    this.random = new Random(seed)
  }

  /** True milliseconds. */
  get now(): number {
    return this.#now
  }

  /** Runs `run` at that time; as part of `process`, if given, so only while that one lives and runs. */
  at(time: number, run: () => void, process?: Process): Occurrence {
    return this.#queue.add(Math.max(time, this.#now), run, process)
  }

  /** Plays what is scheduled, until `done` or until nothing is left. */
  run(done: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let over = false
      const step = (): void => {
        if (over) return
        try {
          over = done() || !this.#step()
          if (over) resolve()
        } catch (error) {
          over = true
          reject(error instanceof Error ? error : new Error('the simulation broke', { cause: error }))
        }
      }
      // Node drains all microtasks between two immediates, and takes many in one turn of its loop.
      const turn = (): void => {
        for (let i = 0; i < STEPS_PER_TURN; i += 1) setImmediate(step)
        if (!over) setImmediate(turn)
      }
      turn()
    })
  }

  #step(): boolean {
    for (let next = this.#queue.take(); next !== undefined; next = this.#queue.take()) {
      const { process } = next
      if (process?.crashed === true) continue
      if (process !== undefined && process.stoppedUntil > next.at) {
        this.#queue.defer(next, process.stoppedUntil)
        continue
      }
      this.#now = next.at
      next.run()
      return true
    }
    return false
  }
}
