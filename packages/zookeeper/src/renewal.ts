import type { Session } from './session.ts'

/** A request has to stay well below the megabyte that servers take. */
const BATCH = 200

/**
 * Which of these nodes the leader still has: one request for many, and a proof of the session's
 * life at the same time. Somebody may have removed a node by hand.
 */
export async function allPresent(session: Session, paths: readonly string[]): Promise<ReadonlySet<string>> {
  const batches = []
  for (let at = 0; at < paths.length; at += BATCH)
    batches.push(presentOf(session, paths.slice(at, at + BATCH)))
  return new Set((await Promise.all(batches)).flat())
}

async function presentOf({ wire }: Session, paths: readonly string[]): Promise<readonly string[]> {
  let present = paths
  while (present.length > 0) {
    const missing = await wire.missing(present)
    if (missing === undefined) break
    present = present.filter((_, index) => index !== missing)
  }
  return present
}
