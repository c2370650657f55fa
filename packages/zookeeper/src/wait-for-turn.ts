import { Wake } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import type { QueueNode } from './queue-node.ts'

/**
 * Waits until each node before this one is gone. Returns when the session was last known to be alive, which dates the
 * grant; undefined to try again.
 */
export async function waitForTurn(
  node: QueueNode,
  clock: Clock,
  maxMs: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { session } = node
  const until = clock.now() + maxMs
  const wake = new Wake(clock)
  const changed = (): void => wake.wake()
  const stop = session.onChange(changed)
  try {
    while (!signal.aborted && session.connected && clock.now() < until) {
      const { predecessor } = node
      if (predecessor === undefined) {
        if (await isFirst(node, clock)) return session.provenAt
        if (node.path === undefined) return undefined
        continue
      }
      if (await session.watches.on(predecessor, changed))
        await wake.sleep(until - clock.now(), { signal, keepAlive: true })
      session.watches.off(predecessor, changed)
      node.forgetPredecessor()
    }
    return undefined
  } finally {
    stop()
  }
}

async function isFirst(node: QueueNode, clock: Clock): Promise<boolean> {
  const { session, path } = node
  if (path === undefined) return false
  const fresh = clock.now() - session.provenAt < session.reliableMs / 3
  const head = await (fresh ? node.look() : node.confirm())
  return head !== undefined && head === node.path
}
