import { LockError } from '@locks/core'
import type { Clock } from '@locks/core'
import type { RedlockNode } from './node.ts'
import { OrderedNode } from './ordered-node.ts'

/** What one node has answered, or why it has not. */
export type Answer<T> = { readonly value: T } | { readonly failure: unknown }

/** Answers by the place of their node; undefined where there is none yet. */
export type Answers<T> = readonly (Answer<T> | undefined)[]

/** How long an orderly end may take. */
const DRAIN_MS = 300

/** Nodes asked in parallel, none of which is waited for longer than it deserves. */
export class Nodes {
  readonly all: readonly RedlockNode[]
  readonly quorum: number
  readonly #timeoutMs: number
  readonly #clock: Clock
  /** Answers that nobody waits for any more. */
  readonly #stragglers = new Set<Promise<unknown>>()

  constructor(all: readonly RedlockNode[], quorum: number, timeoutMs: number, clock: Clock) {
    this.all = all.map((node) => new OrderedNode(node))
    this.quorum = quorum
    this.#timeoutMs = timeoutMs
    this.#clock = clock
  }

  /**
   * Asks every node, and resolves as soon as `enough` says so, all have answered, or the time is over:
   * whoever is silent then has failed. `late` gets the answers that come afterwards.
   */
  ask<T>(
    call: (node: RedlockNode, index: number) => Promise<T>,
    enough: (answers: Answers<T>) => boolean,
    late: (value: T, index: number) => void = () => undefined,
  ): Promise<Answers<T>> {
    return new Promise((resolve) => {
      const answers: (Answer<T> | undefined)[] = this.all.map(() => undefined)
      let open = this.all.length
      let over = false
      const settle = (): void => {
        over = true
        timer.cancel()
        resolve([...answers])
      }
      const timer = this.#clock.timer(this.#timeoutMs, () => {
        const failure = new LockError('LOCK_UNAVAILABLE', `no answer within ${this.#timeoutMs} ms`)
        answers.forEach((answer, index) => (answers[index] = answer ?? { failure }))
        settle()
      })
      const heard = (index: number, answer: Answer<T>): void => {
        if (over) return 'value' in answer ? late(answer.value, index) : undefined
        answers[index] = answer
        open -= 1
        if (open === 0 || enough(answers)) settle()
      }
      this.all.forEach((node, index) => {
        const answered = call(node, index).then(
          (value) => heard(index, { value }),
          (failure: unknown) => heard(index, { failure }),
        )
        this.track(answered)
      })
    })
  }

  /** Keeps an eye on work nobody waits for, so that `drained` can. */
  track(work: Promise<unknown>): void {
    this.#stragglers.add(work)
    const gone = (): void => void this.#stragglers.delete(work)
    work.then(gone, gone)
  }

  /** Resolves when nothing is under way any more, or soon. */
  async drained(): Promise<void> {
    const pause = new Promise<void>((resolve) => {
      this.#clock.timer(Math.min(this.#timeoutMs, DRAIN_MS), resolve)
    })
    await Promise.race([Promise.allSettled(this.#stragglers), pause])
  }

  /** Fewer than a majority could be had: says what became of each. */
  outage<T>(what: string, answers: Answers<T>): LockError {
    const errors = answers.map((answer, index) => {
      const why = answer === undefined ? 'no answer' : 'failure' in answer ? messageOf(answer.failure) : 'ok'
      return new Error(`node ${index + 1}: ${why}`)
    })
    const failed = errors.filter(({ message }) => !message.endsWith(': ok'))
    const summary = failed.map(({ message }) => message).join('; ')
    return new LockError(
      'LOCK_UNAVAILABLE',
      `${what}: ${failed.length} of ${this.all.length} nodes failed, ${this.quorum} are needed (${summary})`,
      { cause: new AggregateError(errors, 'what became of each node') },
    )
  }
}

export function valuesOf<T>(answers: Answers<T>): T[] {
  return answers.flatMap((answer) => (answer !== undefined && 'value' in answer ? [answer.value] : []))
}

/** How many nodes answered so. */
export function count<T>(answers: Answers<T>, is: (value: T) => boolean): number {
  return valuesOf(answers).filter(is).length
}

function messageOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : 'unknown error'
}
