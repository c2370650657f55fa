import type { Nodes } from './nodes.ts'

/**
 * One node after the other. Each decides by its own clock: what it drops is below the fences that it mints from then
 * on, also if the fence came from a node whose clock is ahead.
 */
export async function* pruneAll(
  { all }: Nodes,
  idleMs: number,
  names?: readonly string[],
): AsyncGenerator<number, void> {
  let most = 0
  for (const node of all) {
    let pruned = 0
    for await (const some of node.prune(idleMs, names)) {
      pruned += some
      yield 0
    }
    most = Math.max(most, pruned)
  }
  // Nodes keep the same names, except those that were out of reach.
  yield most
}
