import type { Sentinel } from './drivers/driver.ts'
import { listOf } from './script.ts'

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
export async function opinionOf(sentinel: Sentinel, name: string): Promise<Opinion | undefined> {
  const connection = sentinel.connect(ANSWER_MS)
  try {
    const primary = fieldsOf(await connection.ask('SENTINEL', 'MASTER', name))
    const replacing = hasFlag(primary, 'failover_in_progress')
    const replicas = replacing ? listOf(await connection.ask('SENTINEL', 'SLAVES', name)).map(fieldsOf) : []
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
    connection.close()
  }
}

function hasFlag(fields: ReadonlyMap<string, string>, flag: string): boolean {
  return fields.get('flags')?.split(',').includes(flag) ?? false
}

function fieldsOf(reply: unknown): ReadonlyMap<string, string> {
  const texts = listOf(reply).map(String)
  return new Map(texts.flatMap((text, n) => (n % 2 === 0 ? [[text, texts[n + 1] ?? '']] : [])))
}
