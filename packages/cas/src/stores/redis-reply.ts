import type { LockError } from '@locks/core/adapter'
import { randomBytes } from 'node:crypto'
import { unavailable } from '../errors.ts'

/** A script that answers its one argument. */
export const ECHO = 'return ARGV[1]'

const ours = randomBytes(6).toString('base64url')
let calls = 0

/** No other call of any client has this name. */
export function nextCall(): string {
  calls += 1
  return `${ours}${calls.toString(36)}`
}

interface Connections {
  /** Of a Cluster. */
  readonly nodes?: (role: 'all') => readonly unknown[]
}

/**
 * A reply came that belongs to another command: nothing that still arrives on that connection can be trusted, so it is
 * closed, and ioredis makes a new one. Of a Cluster that is every connection: which of them answered is not known.
 */
export function misdirected(client: object & Connections): LockError {
  const error = unavailable(
    'a reply belongs to another command, so nothing is known about the outcome; the connection was closed',
  )
  for (const one of client.nodes?.('all') ?? [client]) streamOf(one)?.destroy(error)
  return error
}

function streamOf(client: unknown): { destroy(error: Error): void } | undefined {
  const stream: unknown = typeof client === 'object' && client !== null && Reflect.get(client, 'stream')
  return hasDestroy(stream) ? stream : undefined
}

function hasDestroy(value: unknown): value is { destroy(error: Error): void } {
  return (
    typeof value === 'object' && value !== null && 'destroy' in value && typeof value.destroy === 'function'
  )
}
