import type { RedisNode } from '@locks/redis/node'
import type { Identities } from './identities.ts'

/**
 * A node that gets the steps of one attempt one after the other, however slow it is: an attempt here may be settled by
 * the other nodes while this one still owes its answer. A release that overtook its attempt would leave the lock
 * behind; an attempt that overtook the release of the one before would lose its vote. No caller waits for a slow node.
 * A node votes only once it is known to be none of the others.
 */
export function orderedNode(node: RedisNode, identities: Identities): RedisNode {
  const last = new Map<string, Promise<void>>()

  /** The client may have reconnected and sent it to another server, which must not count twice. */
  async function compared<T>(answer: Promise<T>): Promise<T> {
    const value = await answer
    await identities.compare(node)
    return value
  }

  function inOrder<T>(attemptId: string, call: () => Promise<T>): Promise<T> {
    const before = last.get(attemptId)
    const answer = before === undefined ? call() : before.then(call)
    const over = (): void => {
      if (last.get(attemptId) === settled) last.delete(attemptId)
    }
    const settled: Promise<void> = answer.then(over, over)
    last.set(attemptId, settled)
    return answer
  }

  return {
    attempt: (request) =>
      inOrder(request.attemptId, async () => {
        await identities.compare(node)
        return compared(node.attempt(request))
      }),
    release: (name, attemptId, keepMs) => inOrder(attemptId, () => node.release(name, attemptId, keepMs)),
    renew: (renewals) => compared(node.renew(renewals)),
    raise: (...args) => compared(node.raise(...args)),
    look: (name) => node.look(name),
    names: (found) => node.names(found),
    prune: (idleMs, names) => node.prune(idleMs, names),
    diagnose: () => node.diagnose(),
    identity: () => node.identity(),
    watch: (name, wake) => node.watch(name, wake),
    close: () => node.close(),
  }
}
