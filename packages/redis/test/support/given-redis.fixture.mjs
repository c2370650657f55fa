import { redis } from '@locks/redis'
import { Redis } from 'ioredis'

/**
 * An adapter for a config: `@locks/redis` over a client that the program made itself.
 *
 * @param {{ readonly url: string }} options
 */
export function fromConfig({ url }) {
  const client = new Redis(url, { maxRetriesPerRequest: 2 })
  client.on('error', () => undefined)
  return redis({ client })
}
