import type { Cluster, Redis } from 'ioredis'
import { isCluster } from './client.ts'

/** So many commands leave at once, so that the server begins while this side goes on. */
const MAX_COMMANDS = 16

/** How many commands each stream holds back. */
const gathering = new WeakMap<Redis['stream'], number>()

/**
 * Call before a command is sent. Commands of one turn of the event loop leave together: the stream itself holds them
 * back, so that everything that ioredis writes, its handshake too, stays in order. For clients of our own.
 */
export function gather(client: Redis | Cluster): void {
  if (isCluster(client) || client.status !== 'ready') return
  const { stream } = client
  const held = gathering.get(stream)
  if (held === undefined) {
    stream.cork()
    gathering.set(stream, 1)
    process.nextTick(release, stream)
  } else if (held < MAX_COMMANDS) gathering.set(stream, held + 1)
  else {
    stream.uncork()
    stream.cork()
    gathering.set(stream, 1)
  }
}

function release(stream: Redis['stream']): void {
  gathering.delete(stream)
  stream.uncork()
}
