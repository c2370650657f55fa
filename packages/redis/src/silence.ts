import { systemClock } from '@locks/core/adapter'
import type { Redis } from 'ioredis'
import { oldestUnanswered } from './drivers/ioredis.ts'

/** How often silent connections are looked for. A server may take this long to answer. */
export const SILENCE_MS = 3_000

/**
 * Replaces a connection that waits for the same reply at two looks in a row. Otherwise a half-open one would stay for a
 * quarter of an hour. It costs no command anything.
 */
export function watchForSilence(connections: () => readonly Redis[], everyMs: number): NodeJS.Timeout {
  /** What each connection waited for at the last look. */
  const awaited = new WeakMap<Redis, unknown>()
  const look = (): void => {
    for (const one of connections()) {
      const first = oldestUnanswered(one)
      // After a pause of this process the reply may have arrived unread.
      if (first !== undefined && awaited.get(one) === first)
        systemClock.afterPoll?.(() => {
          if (oldestUnanswered(one) === first) one.disconnect(true)
        })
      awaited.set(one, first)
    }
  }
  return setInterval(look, everyMs).unref()
}
