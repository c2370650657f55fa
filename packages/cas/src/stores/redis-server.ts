import type { Finding } from '@locks/core/adapter'
import type { Versioned } from '../versioned-store.ts'
import type { RedisLink } from './redis-client.ts'

/** As many values are fetched at once: one by one they would take a round trip each. */
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

/** What Redis or Tair says of its own memory and disk. */
export async function diagnoseServer(link: RedisLink): Promise<readonly Finding[]> {
  const info = await link.call('INFO')
  const fieldOf = (name: string): string | undefined =>
    typeof info === 'string' ? new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] : undefined
  return [eviction(fieldOf('maxmemory_policy')), persistence(fieldOf('aof_enabled'))]
}

function eviction(policy: string | undefined): Finding {
  const check = 'eviction-policy'
  if (policy === 'noeviction') return { check, level: 'ok', message: 'maxmemory-policy is noeviction' }
  const advice = 'Set maxmemory-policy to noeviction.'
  if (policy === undefined)
    return { check, level: 'warning', message: 'the server does not tell its maxmemory-policy', advice }
  const message = `maxmemory-policy is ${policy}: locks may be evicted while they are held`
  return { check, level: 'danger', message, advice }
}

function persistence(aof: string | undefined): Finding {
  const check = 'persistence'
  if (aof === '1') return { check, level: 'ok', message: 'the append-only file is on' }
  const advice = 'Set appendonly to yes and appendfsync to always where a restart must not free what is held.'
  if (aof === undefined)
    return { check, level: 'warning', message: 'the server does not tell whether it persists', advice }
  const message = 'the append-only file is off: a restart frees every lock, though it is held'
  return { check, level: 'danger', message, advice }
}
