import type { AcquireRequest, Finding, Renewal, RenewOutcome } from '@locks/core/adapter'
import type { Identity, Look, Refusal } from '@locks/redis/node'
import type { Identities } from './identities.ts'
import type { RedlockNode } from './node.ts'

/**
 * Attempts and releases of one attempt id reach a node one after the other, however slow it is: a release
 * that overtook its attempt would leave the lock behind, an attempt that overtook the release of the one
 * before it would lose its vote afterwards. No caller has to wait for a slow node. A node votes only
 * once it is known to be none of the others.
 */
export class OrderedNode implements RedlockNode {
  readonly #node: RedlockNode
  readonly #identities: Identities
  readonly #last = new Map<string, Promise<void>>()

  constructor(node: RedlockNode, identities: Identities) {
    this.#node = node
    this.#identities = identities
  }

  attempt(request: AcquireRequest): Promise<bigint | Refusal> {
    return this.#inOrder(request.attemptId, async () => {
      await this.#identities.compare(this.#node)
      return this.#compared(this.#node.attempt(request))
    })
  }

  free(name: string, attemptId: string): Promise<'released' | 'not-held'> {
    return this.#inOrder(attemptId, () => this.#node.free(name, attemptId))
  }

  keep(name: string, attemptId: string, keepMs: number): Promise<'released' | 'not-held'> {
    return this.#inOrder(attemptId, () => this.#node.keep(name, attemptId, keepMs))
  }

  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    return this.#compared(this.#node.renew(renewals))
  }

  look(name: string): Promise<Look> {
    return this.#node.look(name)
  }

  raise(name: string, attemptId: string, fence: bigint, minted: bigint): Promise<boolean> {
    return this.#compared(this.#node.raise(name, attemptId, fence, minted))
  }

  names(found: (names: readonly string[]) => Promise<boolean>): Promise<void> {
    return this.#node.names(found)
  }

  forget(idleMs: number, names?: readonly string[]): AsyncGenerator<number, void> {
    return this.#node.forget(idleMs, names)
  }

  diagnose(): Promise<readonly Finding[]> {
    return this.#node.diagnose()
  }

  identity(): Promise<Identity | undefined> {
    return this.#node.identity()
  }

  watch(name: string, wake: () => void): () => void {
    return this.#node.watch(name, wake)
  }

  close(): void {
    this.#node.close()
  }

  /** The client may have reconnected, and sent it to another server than before, which must not count twice. */
  async #compared<T>(answer: Promise<T>): Promise<T> {
    const value = await answer
    await this.#identities.compare(this.#node)
    return value
  }

  #inOrder<T>(attemptId: string, call: () => Promise<T>): Promise<T> {
    const before = this.#last.get(attemptId)
    const answer = before === undefined ? call() : before.then(call)
    const over = (): void => {
      if (this.#last.get(attemptId) === settled) this.#last.delete(attemptId)
    }
    const settled: Promise<void> = answer.then(over, over)
    this.#last.set(attemptId, settled)
    return answer
  }
}
