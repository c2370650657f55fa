/**
 * What is under way for each attempt. Connections know no order among each other: a withdrawal on one of them may
 * overtake the very statement it is to undo, so it comes after whatever was sent before it.
 */
export class UnderWay {
  readonly #calls = new Map<string, Promise<unknown>>()

  /** Runs `call`, which others wait for from now on. */
  async run<T>(attemptId: string, call: () => Promise<T>): Promise<T> {
    const before = this.#calls.get(attemptId)
    const made = call()
    const all = before === undefined ? made : Promise.allSettled([before, made])
    this.#calls.set(attemptId, all)
    // Not before those that it overtook are over too.
    const over = (): void => {
      if (this.#calls.get(attemptId) === all) this.#calls.delete(attemptId)
    }
    all.then(over, over)
    return made
  }

  /** Runs `call` once everything that was under way is over, however it ended. */
  async after<T>(attemptId: string, call: () => Promise<T>): Promise<T> {
    const before = this.#calls.get(attemptId)
    if (before !== undefined) await Promise.allSettled([before])
    return this.run(attemptId, call)
  }
}
