import { isLockError, LockError, once, orAfter } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import type { RedisNode } from '@locks/redis/node'
import { errors } from './errors.ts'
import { Identities, SameServerError } from './identities.ts'
import { orderedNode } from './ordered-node.ts'

/** What one node answered, or why it failed. */
export type Answer<T> = { readonly value: T } | { readonly failure: unknown }

/** One per node, in their order; undefined where there is none yet. */
export type Answers<T> = readonly (Answer<T> | undefined)[]

/** How long an orderly end may take. */
const DRAIN_MS = 300

/** A node that is asked alone may be silent for this part of its time-out. */
const FIRST_PART = 1 / 4

/** After a majority has answered, the others have as long again, plus this. */
const GRACE_MS = 20

export interface AskOptions<T> {
  readonly enough: (answers: Answers<T>) => boolean
  /** Gets the answers that come afterwards. */
  readonly late?: (value: T, index: number) => void
  /** Once a majority has answered, does not wait for nodes that hang, even if that is not `enough`. */
  readonly hurry?: boolean
  /** For calls of several steps. Default: the time-out of a node. */
  readonly timeoutMs?: number
}

/** Asks nodes in parallel, and does not wait for slow ones. */
export class Nodes {
  readonly all: readonly RedisNode[]
  readonly quorum: number
  /** Without the order of steps. */
  readonly #bare: readonly RedisNode[]
  readonly #identities: Identities
  readonly #timeoutMs: number
  readonly #clock: Clock
  /** Whether the last call of each failed. */
  readonly #failing: boolean[]
  /** Calls that no caller waits for. */
  readonly #stragglers = new Set<Promise<unknown>>()

  constructor(all: readonly RedisNode[], quorum: number, timeoutMs: number, clock: Clock) {
    this.#identities = new Identities(all)
    this.#bare = all
    this.all = all.map((node) => orderedNode(node, this.#identities))
    this.#failing = all.map(() => false)
    this.quorum = quorum
    this.#timeoutMs = timeoutMs
    this.#clock = clock
  }

  /**
   * Asks every node, and resolves as soon as `enough` says so, all have answered, or the time is over: nodes that are
   * silent then have failed.
   */
  ask<T>(
    call: (node: RedisNode, index: number) => Promise<T>,
    { enough, late, hurry = false, timeoutMs = this.#timeoutMs }: AskOptions<T>,
  ): Promise<Answers<T>> {
    return new Promise((resolve) => {
      const answers: (Answer<T> | undefined)[] = this.all.map(() => undefined)
      const askedAt = this.#clock.now()
      let open = this.all.length
      let over = false
      let grace: Timer | undefined
      const settle = (): void => {
        over = true
        timer.cancel()
        grace?.cancel()
        resolve([...answers])
      }
      const timer = this.#clock.timer(timeoutMs, () => {
        const failure = errors.unavailable(`no answer within ${timeoutMs} ms`)
        answers.forEach((answer, index) => (answers[index] = answer ?? { failure }))
        settle()
      })
      const receive = (index: number, answer: Answer<T>): void => {
        if (over) return 'value' in answer ? late?.(answer.value, index) : undefined
        answers[index] = answer
        open -= 1
        if (open === 0 || enough(answers)) return settle()
        if (hurry && valuesOf(answers).length >= this.quorum)
          grace ??= this.#clock.timer(this.#clock.now() - askedAt + GRACE_MS, settle)
      }
      this.all.forEach((node, index) => {
        this.track(this.#settled(call(node, index), index).then((answer) => receive(index, answer)))
      })
    })
  }

  /**
   * Before the first vote: rejects with `LOCK_INVALID_ARGUMENT` when two nodes are the same server. A node that does
   * not answer is compared before its own first vote.
   */
  readonly compared: () => Promise<void> = once(async () => {
    const compare = async (_: RedisNode, index: number): Promise<void> => {
      const node = this.#bare[index]
      if (node !== undefined) await this.#identities.compare(node)
    }
    const answers = await this.ask(compare, { enough: () => false, hurry: true })
    const refusal = misconfigured(answers)
    if (refusal !== undefined) throw refusal
  })

  /** Asks one node alone, the same for all clients while it works. Undefined if it fails. */
  async askFirst<T>(call: (node: RedisNode) => Promise<T>): Promise<T | undefined> {
    const index = Math.max(0, this.#failing.indexOf(false))
    const node = this.all[index]
    if (node === undefined) return undefined
    const settled = this.#settled(call(node), index)
    this.track(settled)
    const answer = await orAfter(this.#clock, this.#timeoutMs * FIRST_PART, settled)
    if (answer === undefined) this.#failing[index] = true
    return answerOf(answer)
  }

  async #settled<T>(answered: Promise<T>, index: number): Promise<Answer<T>> {
    try {
      const value = await answered
      this.#failing[index] = false
      return { value }
    } catch (failure) {
      this.#failing[index] = true
      return { failure }
    }
  }

  /** Tracks work that no caller waits for, so that `drained` can. */
  track(work: Promise<unknown>): void {
    this.#stragglers.add(work)
    const gone = (): void => void this.#stragglers.delete(work)
    work.then(gone, gone)
  }

  /** Resolves when no work is left, or soon. */
  async drained(): Promise<void> {
    await orAfter(this.#clock, Math.min(this.#timeoutMs, DRAIN_MS), Promise.allSettled(this.#stragglers))
  }

  /** Too few nodes answered: says what became of each. */
  outage<T>(what: string, answers: Answers<T>): LockError {
    const failures = answers.map((answer) =>
      answer !== undefined && 'failure' in answer ? answer.failure : undefined,
    )
    const each = answers.map((answer, index) => {
      const why =
        answer === undefined ? 'not waited for' : 'failure' in answer ? messageOf(answer.failure) : 'ok'
      return new Error(`node ${index + 1}: ${why}`)
    })
    const failed = each.filter((_, index) => failures[index] !== undefined)
    // Settings of the servers, or other keys under that name, do not change by themselves.
    const final = failures.flatMap((failure) =>
      isLockError(failure) && failure.code !== 'LOCK_UNAVAILABLE' ? [failure.code] : [],
    )
    const summary = failed.map(({ message }) => message).join('; ')
    return new LockError(
      (final.length > this.all.length - this.quorum ? final[0] : undefined) ?? 'LOCK_UNAVAILABLE',
      `${what}: ${failed.length} of ${this.all.length} nodes failed, ${this.quorum} are needed (${summary})`,
      { cause: new AggregateError(each, 'the outcome on each node') },
    )
  }
}

/** The error of two nodes that are the same server, if any. */
export function misconfigured<T>(answers: Answers<T>): LockError | undefined {
  for (const answer of answers)
    if (answer !== undefined && 'failure' in answer && answer.failure instanceof SameServerError)
      return answer.failure
  return undefined
}

/** What a node answered, if it did. */
export function answerOf<T>(answer: Answer<T> | undefined): T | undefined {
  return answer !== undefined && 'value' in answer ? answer.value : undefined
}

export function valuesOf<T>(answers: Answers<T>): T[] {
  return answers.flatMap((answer) => (answer !== undefined && 'value' in answer ? [answer.value] : []))
}

/** How many nodes gave such an answer. */
export function count<T>(answers: Answers<T>, is: (value: T) => boolean): number {
  return valuesOf(answers).filter(is).length
}

function messageOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : 'unknown error'
}
