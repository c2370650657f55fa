import type { Nodes } from './nodes.ts'

/**
 * One node after the other. Each decides by its own clock: what it drops is below the fences that it mints from then
 * on, also where the fence came from another node, whose clock is ahead.
 */
export async function* forgetOnAll(
  { all }: Nodes,
  idleMs: number,
  names?: readonly string[],
): AsyncGenerator<number, void> {
  let most = 0
  for (const node of all) {
    let forgotten = 0
    for await (const some of node.forget(idleMs, names)) {
      forgotten += some
      yield 0
    }
    most = Math.max(most, forgotten)
  }
  // Nodes keep the same names, but for those that were out of reach.
  yield most
}
