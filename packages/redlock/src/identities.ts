import { LockError } from '@locks/core/adapter'
import type { Identity, RedisNode } from '@locks/redis/node'

/** Two nodes are the same server. A key that one node refuses costs a vote; this prevents every lock. */
export class SameServerError extends LockError {}

/**
 * Which server each node is. One server under two addresses would vote twice. Several databases of one server are
 * several nodes, which `diagnose` warns about.
 */
export class Identities {
  readonly #nodes: readonly RedisNode[]
  readonly #known = new Map<RedisNode, Identity>()

  constructor(nodes: readonly RedisNode[]) {
    this.#nodes = nodes
  }

  /** Rejects with `LOCK_INVALID_ARGUMENT` when another node is the same server. */
  async compare(node: RedisNode): Promise<void> {
    const identity = await node.identity()
    if (identity === undefined || identity === this.#known.get(node)) return
    for (const [other, known] of this.#known) {
      if (other === node || !isSame(known, identity)) continue
      // The other node may lead to another server by now.
      const now = await other.identity()
      if (now !== undefined && isSame(now, identity)) throw this.#sameServer(node, other)
    }
    this.#known.set(node, identity)
  }

  #sameServer(...both: readonly RedisNode[]): LockError {
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
