import { shareListener } from '@locks/core/adapter'
import { Redis } from 'ioredis'
import type { Sentinel, SentinelConnection, Sentinels } from './driver.ts'
import type { ConnectionOptions } from './given.ts'
import { isCluster, quiet } from './ioredis-clients.ts'
import type { Client } from './given.ts'

/** Undefined where no Sentinels are asked for the primary. */
export function sentinelsOf(client: Client, isOwn: boolean): Sentinels | undefined {
  if (isCluster(client) || !client.options.sentinels || !client.options.name) return undefined
  return new IoredisSentinels(client, client.options.name, isOwn)
}

class IoredisSentinels implements Sentinels {
  readonly name: string
  readonly leaves: boolean
  readonly #client: Redis

  constructor(client: Redis, name: string, isOwn: boolean) {
    this.#client = client
    this.name = name
    this.leaves = isOwn || client.options.failoverDetector === true
  }

  all(): readonly Sentinel[] {
    return sentinelOptions(this.#client.options).map((options) => ({
      connect: (answerMs) => new IoredisSentinel(options, answerMs),
    }))
  }

  connection(): Redis['stream'] | undefined {
    return this.#client.stream
  }

  at(): string | undefined {
    const stream = this.connection()
    return stream?.remoteAddress === undefined ? undefined : `${stream.remoteAddress}:${stream.remotePort}`
  }

  mapped(address: string | undefined): string | undefined {
    const { natMap } = this.#client.options
    if (address === undefined || natMap === undefined || natMap === null) return address
    const to = typeof natMap === 'function' ? natMap(address) : natMap[address]
    return to ? `${to.host}:${to.port}` : address
  }

  onConnect(call: () => void): () => void {
    return shareListener(this.#client, 'connect', call)
  }
}

class IoredisSentinel implements SentinelConnection {
  readonly #client: Redis

  constructor(options: ConnectionOptions, answerMs: number | undefined) {
    const once =
      answerMs === undefined
        ? {}
        : {
            connectTimeout: answerMs,
            commandTimeout: answerMs,
            maxRetriesPerRequest: 0,
            retryStrategy: () => null,
          }
    this.#client = quiet(new Redis({ ...options, ...once, replyMapping: 'legacy' }))
  }

  ask(name: string, ...args: string[]): Promise<unknown> {
    return this.#client.call(name, ...args)
  }

  listen(
    channels: readonly string[],
    received: (channel: string, text: string) => void,
    ready: () => void,
  ): void {
    this.#client.on('message', received)
    this.#client.on('ready', ready)
    // ioredis retries until the connection is closed, and rejects then.
    this.#client.subscribe(...channels).catch(() => undefined)
  }

  close(): void {
    this.#client.disconnect()
  }
}

/** How to reach each Sentinel. */
function sentinelOptions(options: ConnectionOptions): readonly ConnectionOptions[] {
  const { sentinelUsername, sentinelPassword, sentinelTLS, family } = options
  return (options.sentinels ?? []).map(({ host = 'localhost', port = 26_379 }) => ({
    host,
    port,
    ...(family !== undefined && { family }),
    ...(sentinelUsername && { username: sentinelUsername }),
    ...(sentinelPassword && { password: sentinelPassword }),
    ...(sentinelTLS && { tls: sentinelTLS }),
    enableReadyCheck: false,
    // Without a ready check, 5.8 to 5.11 are ready on a connection that ends before the answer to CLIENT SETINFO.
    disableClientInfo: true,
    maxRetriesPerRequest: null,
    keepAlive: 10_000,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  }))
}
