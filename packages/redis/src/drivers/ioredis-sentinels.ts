import { Redis } from 'ioredis'
import type { RedisOptions } from 'ioredis'
import { listOf } from '../script.ts'
import { quiet } from './ioredis.ts'

/** A Sentinel that takes longer to answer is not waited for. */
const ANSWER_MS = 1_000

/** What one Sentinel says of a primary. */
export interface Opinion {
  /** Rises with every failover. */
  readonly epoch: number
  /** Whether it is replacing the primary. */
  readonly replacing: boolean
  /** The server that clients may use, as `host:port`: the primary, or the replica that is promoted, if any. */
  readonly address: string | undefined
  readonly runId: string | undefined
}

/** Undefined when the Sentinel does not answer. */
export async function opinionOf(options: RedisOptions, name: string): Promise<Opinion | undefined> {
  const sentinel = openSentinel(options, ANSWER_MS)
  try {
    const primary = fieldsOf(await sentinel.call('SENTINEL', 'MASTER', name))
    const replacing = hasFlag(primary, 'failover_in_progress')
    const replicas = replacing ? listOf(await sentinel.call('SENTINEL', 'SLAVES', name)).map(fieldsOf) : []
    const next = replacing ? replicas.find((replica) => hasFlag(replica, 'promoted')) : primary
    return {
      epoch: Number(primary.get('config-epoch')),
      replacing,
      address: next && `${next.get('ip')}:${next.get('port')}`,
      runId: next?.get('runid'),
    }
  } catch {
    return undefined
  } finally {
    sentinel.disconnect()
  }
}

function hasFlag(fields: ReadonlyMap<string, string>, flag: string): boolean {
  return fields.get('flags')?.split(',').includes(flag) ?? false
}

function fieldsOf(reply: unknown): ReadonlyMap<string, string> {
  const texts = listOf(reply).map(String)
  return new Map(texts.flatMap((text, n) => (n % 2 === 0 ? [[text, texts[n + 1] ?? '']] : [])))
}

/** A connection to a Sentinel. With `answerMs` it is for a few commands, each of which fails after that long. */
export function openSentinel(options: RedisOptions, answerMs?: number): Redis {
  const once =
    answerMs === undefined
      ? {}
      : {
          connectTimeout: answerMs,
          commandTimeout: answerMs,
          maxRetriesPerRequest: 0,
          retryStrategy: () => null,
        }
  return quiet(new Redis({ ...options, ...once, replyMapping: 'legacy' }))
}

/** How to reach each Sentinel of a client. */
export function sentinelsOf(options: RedisOptions): readonly RedisOptions[] {
  const { sentinelUsername, sentinelPassword, sentinelTLS, family } = options
  return (options.sentinels ?? []).map(({ host = 'localhost', port = 26_379 }) => ({
    host,
    port,
    ...(family !== undefined && { family }),
    ...(sentinelUsername && { username: sentinelUsername }),
    ...(sentinelPassword && { password: sentinelPassword }),
    ...(sentinelTLS && { tls: sentinelTLS }),
    enableReadyCheck: false,
    maxRetriesPerRequest: null,
    keepAlive: 10_000,
    retryStrategy: (times: number) => Math.min(50 * times, 1_000),
  }))
}

/** The address of a server as the client has to connect to it. */
export function mapped(address: string | undefined, { natMap }: RedisOptions): string | undefined {
  if (address === undefined || natMap === undefined || natMap === null) return address
  const to = typeof natMap === 'function' ? natMap(address) : natMap[address]
  return to ? `${to.host}:${to.port}` : address
}
