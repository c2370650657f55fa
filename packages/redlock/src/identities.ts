import { LockError } from '@locks/core/adapter'
import type { Identity } from '@locks/redis/node'
import type { RedlockNode } from './node.ts'

/** Two nodes are one server. Unlike a key that one node refuses, which is a vote less, no lock can be had then. */
export class SameServerError extends LockError {}

/**
 * Which server each node is. One server under two addresses would vote twice, and a majority would be less than that.
 * Several databases of one server are several nodes, of which `diagnose` warns.
 */
export class Identities {
  readonly #nodes: readonly RedlockNode[]
  readonly #known = new Map<RedlockNode, Identity>()

  constructor(nodes: readonly RedlockNode[]) {
    this.#nodes = nodes
  }

  /** Rejects with `LOCK_INVALID_ARGUMENT` when another node is the same server. */
  async compare(node: RedlockNode): Promise<void> {
    const identity = await node.identity()
    if (identity === undefined || identity === this.#known.get(node)) return
    for (const [other, known] of this.#known) {
      if (other === node || !isSame(known, identity)) continue
      // That one may lead elsewhere by now.
      const now = await other.identity()
      if (now !== undefined && isSame(now, identity)) throw this.#sameServer(node, other)
    }
    this.#known.set(node, identity)
  }

  #sameServer(...both: readonly RedlockNode[]): LockError {
    const [first, second] = both.map((node) => this.#nodes.indexOf(node) + 1).toSorted((a, b) => a - b)
    return new SameServerError(
      'LOCK_INVALID_ARGUMENT',
      `@locks/redlock: nodes ${first} and ${second} are the same server under two addresses: its vote would count ` +
        'twice, so nothing is granted; name every server once',
    )
  }
}

function isSame(one: Identity, other: Identity): boolean {
  return one.server === other.server && one.keyspace === other.keyspace
}
