import type { Cluster, Redis, RedisOptions as ConnectionOptions } from 'ioredis'
import { isRecord, settleOptions, urlOf, wrongOption } from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import { isClient } from './client.ts'
import { declared } from './option-table.ts'
import type { ClusterPlace, RedisWarning } from './option-table.ts'
import { parseUrl } from './url.ts'

/** The default of `fenceIdleMs`, unless names are shared with Redisson. */
const FENCE_IDLE_MS = 86_400_000

type Read = Settled<typeof declared.options>

/** Options with every default filled in. */
export interface RedisSettings extends Omit<Read, 'url' | 'connection' | 'cluster' | 'client' | 'onWarning'> {
  readonly client: Redis | Cluster | undefined
  readonly connection: ConnectionOptions
  readonly cluster: ClusterPlace | undefined
  readonly fenceIdleMs: number
  readonly onWarning: (warning: RedisWarning) => void
}

/** Checks what a program or a config gave. */
export function settle(options: unknown): RedisSettings {
  const url = urlOf(declared, options)
  const parsed = url === undefined ? undefined : parseUrl(url)
  const read = settleOptions(declared, options, parsed?.extra)
  return {
    ...read,
    ...(parsed === undefined ? placeOf(read) : { ...nowhere, ...parsed.place }),
    fenceIdleMs: read.fenceIdleMs ?? (read.prefix === '' ? 0 : FENCE_IDLE_MS),
    onWarning: onWarningOf(read.onWarning),
  }
}

const nowhere = { client: undefined, connection: {}, cluster: undefined }

function placeOf({
  client,
  connection,
  cluster,
}: Read): Pick<RedisSettings, 'client' | 'connection' | 'cluster'> {
  if (client !== undefined) {
    if (!isClient(client)) throw wrongOption(declared, 'client', client)
    return { ...nowhere, client }
  }
  if (connection !== undefined) {
    if (!isConnection(connection)) throw wrongOption(declared, 'connection')
    return { ...nowhere, connection }
  }
  if (!isCluster(cluster)) throw wrongOption(declared, 'cluster')
  return { ...nowhere, cluster }
}

function isConnection(value: unknown): value is ConnectionOptions {
  return isRecord(value)
}

function isCluster(value: unknown): value is ClusterPlace {
  if (!isRecord(value) || !Array.isArray(value['nodes']) || value['nodes'].length === 0) return false
  if (Object.keys(value).some((key) => key !== 'nodes' && key !== 'options')) return false
  return value['options'] === undefined || isRecord(value['options'])
}

function isListener(value: unknown): value is RedisSettings['onWarning'] {
  return typeof value === 'function'
}

function onWarningOf(value: unknown): RedisSettings['onWarning'] {
  if (value === undefined)
    return ({ code, message }) => process.emitWarning(message, { type: 'LocksWarning', code })
  if (!isListener(value)) throw wrongOption(declared, 'onWarning')
  return value
}
