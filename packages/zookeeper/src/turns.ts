/**
 * Runs the steps of one try one after another: a withdrawal that overtook the creation of a node
 * would find nothing to remove.
 */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  take<T>(attemptId: string, step: () => Promise<T>): Promise<T> {
    const before = this.#last.get(attemptId)
    const result = before === undefined ? step() : before.then(step)
    const over = (): void => {
      if (this.#last.get(attemptId) === settled) this.#last.delete(attemptId)
    }
    const settled: Promise<void> = result.then(over, over)
    this.#last.set(attemptId, settled)
    return result
  }
}
