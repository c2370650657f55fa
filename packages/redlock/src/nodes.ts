import { isLockError, LockError } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import { Identities, SameServerError } from './identities.ts'
import type { RedlockNode } from './node.ts'
import { OrderedNode } from './ordered-node.ts'

/** What one node has answered, or why it has not. */
export type Answer<T> = { readonly value: T } | { readonly failure: unknown }

/** Answers by the place of their node; undefined where there is none yet. */
export type Answers<T> = readonly (Answer<T> | undefined)[]

/** How long an orderly end may take. */
const DRAIN_MS = 300

/** Whoever is asked first, and alone, may be silent for this part of its time. */
const FIRST_PART = 1 / 4

/** Once a majority has answered, the others have as long again, and this. */
const GRACE_MS = 20

export interface AskOptions<T> {
  readonly enough: (answers: Answers<T>) => boolean
  /** Gets the answers that come afterwards. */
  readonly late?: (value: T, index: number) => void
  /** Not to wait for a node that hangs once a majority has answered, although that was not enough. */
  readonly hurry?: boolean
  /** Instead of the time-out of a node, for what takes several steps. */
  readonly timeoutMs?: number
}

/** Nodes asked in parallel, none of which is waited for longer than it deserves. */
export class Nodes {
  readonly all: readonly RedlockNode[]
  readonly quorum: number
  /** As they were given. */
  readonly #bare: readonly RedlockNode[]
  readonly #identities: Identities
  #compared: Promise<void> | undefined
  readonly #timeoutMs: number
  readonly #clock: Clock
  /** Which of them failed when they were last heard of. */
  readonly #failing: boolean[]
  /** Answers that nobody waits for any more. */
  readonly #stragglers = new Set<Promise<unknown>>()

  constructor(all: readonly RedlockNode[], quorum: number, timeoutMs: number, clock: Clock) {
    this.#identities = new Identities(all)
    this.#bare = all
    this.all = all.map((node) => new OrderedNode(node, this.#identities))
    this.#failing = all.map(() => false)
    this.quorum = quorum
    this.#timeoutMs = timeoutMs
    this.#clock = clock
  }

  /**
   * Asks every node, and resolves as soon as `enough` says so, all have answered, or the time is over:
   * whoever is silent then has failed.
   */
  ask<T>(
    call: (node: RedlockNode, index: number) => Promise<T>,
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
        const failure = new LockError('LOCK_UNAVAILABLE', `no answer within ${timeoutMs} ms`)
        answers.forEach((answer, index) => (answers[index] = answer ?? { failure }))
        settle()
      })
      const heard = (index: number, answer: Answer<T>): void => {
        if (over) return 'value' in answer ? late?.(answer.value, index) : undefined
        answers[index] = answer
        open -= 1
        if (open === 0 || enough(answers)) return settle()
        if (hurry && valuesOf(answers).length >= this.quorum)
          grace ??= this.#clock.timer(this.#clock.now() - askedAt + GRACE_MS, settle)
      }
      this.all.forEach((node, index) => {
        this.track(this.#listenTo(call(node, index), index).then((answer) => heard(index, answer)))
      })
    })
  }

  /**
   * Before the first vote: rejects with `LOCK_INVALID_ARGUMENT` when two nodes are the same server. A node that does
   * not answer is compared before its own first vote.
   */
  compared(): Promise<void> {
    this.#compared ??= this.#compare().catch((error: unknown) => {
      this.#compared = undefined
      throw error
    })
    return this.#compared
  }

  async #compare(): Promise<void> {
    const compare = async (_: RedlockNode, index: number): Promise<void> => {
      const node = this.#bare[index]
      if (node !== undefined) await this.#identities.compare(node)
    }
    const answers = await this.ask(compare, { enough: () => false, hurry: true })
    const refusal = misconfigured(answers)
    if (refusal !== undefined) throw refusal
  }

  /** Asks one node alone, the same for all clients as long as it works. Undefined when it does not. */
  askFirst<T>(call: (node: RedlockNode) => Promise<T>): Promise<T | undefined> {
    const index = Math.max(0, this.#failing.indexOf(false))
    const node = this.all[index]
    return new Promise((resolve) => {
      if (node === undefined) return resolve(undefined)
      const timer = this.#clock.timer(this.#timeoutMs * FIRST_PART, () => {
        this.#failing[index] = true
        resolve(undefined)
      })
      const answered = this.#listenTo(call(node), index).then((answer) => {
        timer.cancel()
        resolve(saidOf(answer))
      })
      this.track(answered)
    })
  }

  async #listenTo<T>(answered: Promise<T>, index: number): Promise<Answer<T>> {
    try {
      const value = await answered
      this.#failing[index] = false
      return { value }
    } catch (failure) {
      this.#failing[index] = true
      return { failure }
    }
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
    const failures = answers.map((answer) =>
      answer !== undefined && 'failure' in answer ? answer.failure : undefined,
    )
    const errors = answers.map((answer, index) => {
      const why =
        answer === undefined ? 'not waited for' : 'failure' in answer ? messageOf(answer.failure) : 'ok'
      return new Error(`node ${index + 1}: ${why}`)
    })
    const failed = errors.filter((_, index) => failures[index] !== undefined)
    // What the servers are set to, or keep under that name, will not pass by itself.
    const final = failures.flatMap((failure) =>
      isLockError(failure) && failure.code !== 'LOCK_UNAVAILABLE' ? [failure.code] : [],
    )
    const summary = failed.map(({ message }) => message).join('; ')
    return new LockError(
      (final.length > this.all.length - this.quorum ? final[0] : undefined) ?? 'LOCK_UNAVAILABLE',
      `${what}: ${failed.length} of ${this.all.length} nodes failed, ${this.quorum} are needed (${summary})`,
      { cause: new AggregateError(errors, 'what became of each node') },
    )
  }
}

/** Why the nodes cannot be used as they are, if one of them says so. */
export function misconfigured<T>(answers: Answers<T>): LockError | undefined {
  for (const answer of answers)
    if (answer !== undefined && 'failure' in answer && answer.failure instanceof SameServerError)
      return answer.failure
  return undefined
}

/** What a node has answered, if it has. */
export function saidOf<T>(answer: Answer<T> | undefined): T | undefined {
  return answer !== undefined && 'value' in answer ? answer.value : undefined
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
