import type { Clock } from '@locks/core/adapter'
import type { Place } from './place.ts'

/**
 * Waits for the predecessor to go, and for the one before that, until the place is the first.
 * Answers since when the session is known to live, which dates the grant; undefined to try again.
 */
export async function waitInPlace(
  place: Place,
  clock: Clock,
  maxMs: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const { session } = place
  const until = clock.now() + maxMs
  const leave = session.attend()
  try {
    while (!signal.aborted && session.connected && clock.now() < until) {
      const { predecessor } = place
      if (predecessor === undefined) {
        if (await isFirst(place, clock)) return session.provenAt
        if (place.path === undefined) return undefined
      } else {
        await goneOrOver(place, predecessor, clock, until - clock.now(), signal)
        place.forgetPredecessor()
      }
    }
    return undefined
  } finally {
    leave()
  }
}

/** Looks who comes before, and makes sure that the session lives if that has not been proven lately. */
async function isFirst(place: Place, clock: Clock): Promise<boolean> {
  const { session, path } = place
  if (path === undefined) return false
  const fresh = clock.now() - session.provenAt < session.reliableMs / 3
  const head = await (fresh ? place.look() : place.confirm())
  return head !== undefined && head === place.path
}

async function goneOrOver(
  place: Place,
  predecessor: string,
  clock: Clock,
  maxMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { session } = place
  let wake: () => void = () => undefined
  const woken = new Promise<void>((resolve) => (wake = resolve))
  const timer = clock.timer(maxMs, wake)
  timer.keepAlive(true)
  const off = session.onChange(wake)
  signal.addEventListener('abort', wake)
  try {
    if ((await session.watches.on(predecessor, wake)) && !signal.aborted) await woken
  } finally {
    timer.cancel()
    off()
    signal.removeEventListener('abort', wake)
    session.watches.off(predecessor, wake)
  }
}
