import type { Cluster, Redis } from 'ioredis'
import { isCluster } from './client.ts'

/** Lets the process end although the connection is open, or not to be had: core keeps it alive while somebody waits. */
export function loosen(client: Redis | Cluster): void {
  if (isCluster(client)) client.on('+node', loosen)
  else client.on('connect', () => void client.stream.unref())
  client.on('reconnecting', () => {
    // ioredis has no word for it.
    const timer: unknown = Reflect.get(client, 'reconnectTimeout')
    if (isTimer(timer)) timer.unref()
  })
}

function isTimer(value: unknown): value is NodeJS.Timeout {
  return typeof value === 'object' && value !== null && 'unref' in value
}
