import type { Renewal } from '@locks/core/adapter'
import type { RedisNode } from '@locks/redis/node'
import { randomBytes } from 'node:crypto'
import { errors } from './errors.ts'

interface Vote {
  readonly id: string
  /** Whether nodes were asked for it, and still may be. */
  used: boolean
  open: boolean
  readonly owed: Map<RedisNode, Owed>
}

/** Earlier ids that a node may still hold. */
interface Owed {
  readonly ids: Set<string>
  releasing: Promise<void> | undefined
}

/** How many attempts are remembered. Core does not report each one that ends while too few nodes answer. */
const MOST = 10_000

/**
 * The ids under which attempts vote. When a connection is replaced, the network may deliver a release once more, at any
 * later time. So an id that was withdrawn is not used again: the next vote of that attempt has another one.
 */
export class Votes {
  /** Attempts that have withdrawn a vote. The others vote under their own id. */
  readonly #votes = new Map<string, Vote>()

  idOf(attemptId: string): string {
    return this.#votes.get(attemptId)?.id ?? attemptId
  }

  /** Calls `vote` once the node holds no earlier vote, which would refuse it; not if it was withdrawn meanwhile. */
  async on<T>(
    node: RedisNode,
    { name, attemptId }: { readonly name: string; readonly attemptId: string },
    vote: (id: string) => Promise<T>,
  ): Promise<T> {
    const now = this.#votes.get(attemptId)
    if (now === undefined) return vote(attemptId)
    now.used = true
    await this.settle(node, name, attemptId)
    if (!now.open) throw errors.unavailable('the vote was withdrawn before this node was asked')
    return vote(now.id)
  }

  /** The present vote is to be released on these nodes, if any, and the next one then gets another id. */
  withdraw(attemptId: string, nodes: readonly RedisNode[]): void {
    const first: Vote = { id: attemptId, used: true, open: true, owed: new Map() }
    const { id, used, owed } = this.#votes.get(attemptId) ?? first
    if (!used || nodes.length === 0) return
    for (const node of nodes) {
      const one = owed.get(node) ?? { ids: new Set<string>(), releasing: undefined }
      one.ids.add(id)
      owed.set(node, one)
    }
    this.delete(attemptId)
    this.#votes.set(attemptId, { id: another(attemptId), used: false, open: true, owed })
    const [oldest] = this.#votes.keys()
    if (this.#votes.size > MOST && oldest !== undefined) this.#votes.delete(oldest)
  }

  /** Releases on a node what it may hold of withdrawn votes. */
  async settle(node: RedisNode, name: string, attemptId: string): Promise<void> {
    const owed = this.#votes.get(attemptId)?.owed.get(node)
    if (owed === undefined) return
    while (owed.ids.size > 0) {
      // Once at a time: a node that hangs is settled as often as others vote.
      owed.releasing ??= releaseAll(node, name, owed.ids).finally(() => (owed.releasing = undefined))
      await owed.releasing
    }
  }

  /** No other node is asked for the present vote. */
  close(attemptId: string): void {
    const now = this.#votes.get(attemptId)
    if (now !== undefined) now.open = false
  }

  /** The attempt is over. */
  delete(attemptId: string): void {
    this.close(attemptId)
    this.#votes.delete(attemptId)
  }

  /** Under the ids that nodes know. */
  inVotes(renewals: readonly Renewal[]): readonly Renewal[] {
    if (this.#votes.size === 0) return renewals
    return renewals.map((renewal) => {
      const { grant } = renewal
      return { ...renewal, grant: { ...grant, attemptId: this.idOf(grant.attemptId) } }
    })
  }
}

/** Those too that are added meanwhile. */
async function releaseAll(node: RedisNode, name: string, ids: Set<string>): Promise<void> {
  for (const id of ids) {
    await node.release(name, id)
    ids.delete(id)
  }
}

/** As secret as the first one. */
function another(attemptId: string): string {
  const client = attemptId.slice(0, attemptId.lastIndexOf(':'))
  return `${client}:${BigInt.asUintN(63, randomBytes(8).readBigUInt64BE())}`
}
