import { danger, ok, warning } from '@locks/core/adapter'
import type { Finding, Versioned } from '@locks/core/adapter'
import { loadLibrary } from './redis-client.ts'
import type { RedisLink } from './redis-client.ts'

/** How many values are fetched at once: one by one they would take a round trip each. */
const BATCH = 100

export async function* valuesOf(
  keys: AsyncIterable<string>,
  get: (key: string) => Promise<Versioned | undefined>,
): AsyncGenerator<Versioned> {
  const batch: string[] = []
  const fetched = async (): Promise<Versioned[]> => {
    const values = await Promise.all(batch.splice(0).map(get))
    return values.filter((value) => value !== undefined)
  }
  for await (const key of keys) if (batch.push(key) >= BATCH) yield* await fetched()
  yield* await fetched()
}

/** What the memory and disk settings of Redis or Tair mean for locks. */
export async function diagnoseServer(link: RedisLink): Promise<readonly Finding[]> {
  const info = String(await link.call('INFO'))
  const { evictionFinding, fieldOf } = await loadLibrary()
  return [evictionFinding(info), persistence(fieldOf(info, 'aof_enabled'))]
}

function persistence(aof: string | undefined): Finding {
  const check = 'persistence'
  if (aof === '1') return ok(check, 'the append-only file is on')
  const advice = 'set appendonly to yes and appendfsync to always if held locks must survive a restart'
  if (aof === undefined) return warning(check, 'the server does not report whether it persists', advice)
  return danger(check, 'the append-only file is off: a restart frees every lock that is held', advice)
}
