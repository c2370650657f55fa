import type { Redis } from 'ioredis'

/** How often silent connections are looked for. A server may take as long to answer. */
export const SILENCE_MS = 3_000

/**
 * A connection that has owed the same answer at two looks in a row is taken for dead, and made anew: without
 * this a half-open one would stay for a quarter of an hour. No command pays for it.
 */
export function watchForSilence(connections: () => readonly Redis[], everyMs: number): NodeJS.Timeout {
  /** What each connection was waiting for at the last look. */
  const awaited = new WeakMap<Redis, unknown>()
  const look = (): void => {
    for (const one of connections()) {
      const first = frontOf(one)
      // The answer may be here, unread, when this process was paused: let it be read first.
      if (first !== undefined && awaited.get(one) === first)
        setImmediate(() => {
          if (frontOf(one) === first) one.disconnect(true)
        })
      awaited.set(one, first)
    }
  }
  return setInterval(look, everyMs).unref()
}

/**
 * What a connection has been owed for longest. At 'connect' that is a part of the handshake, which a server
 * that hangs never answers either; one that loads its data does, again and again.
 */
function frontOf(client: Redis): unknown {
  const { status } = client
  return status === 'ready' || status === 'connect' ? client.commandQueue.peekFront() : undefined
}
