import type { Locks } from '@locks/core'
import { openBackend } from './backend.ts'
import type { Backend } from './backend.ts'
import type { Invocation } from './invocation.ts'
import { percentile, timed } from './statistics.ts'

const WARM_UP = 20
// Always the same names, since a store may keep the fence of a free name.
// Paths, since some stores accept nothing else.
const FREE = '/locks-bench-free'
const WANTED = '/locks-bench-wanted'

export interface Measured {
  readonly count: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Acquires and releases an uncontended lock, one cycle after another. */
export async function uncontended(
  backend: Backend,
  timeMs: number,
  invocation: Invocation,
): Promise<Measured> {
  const locks = await openBackend(invocation, backend)
  const lock = locks.lock(FREE)
  const cycle = async (): Promise<void> => (await lock.acquire({ signal: invocation.signal })).release()
  const start = performance.now()
  for (let n = 0; n < WARM_UP && performance.now() - start < timeMs; n += 1) await cycle()
  const samples: number[] = []
  const begin = performance.now()
  do samples.push(await timed(cycle))
  while (performance.now() - begin < timeMs)
  return summary(samples, performance.now() - begin)
}

/** Clients that compete for one lock: the time from a release to the next grant. */
export async function contended(
  backend: Backend,
  timeMs: number,
  count: number,
  invocation: Invocation,
): Promise<Measured & { readonly clients: number }> {
  const clients: Locks[] = []
  for (let n = 0; n < count; n += 1) clients.push(await openBackend(invocation, backend))
  const samples: number[] = []
  let freedAt: number | undefined

  const begin = performance.now()
  const until = begin + timeMs

  async function contend(locks: Locks): Promise<void> {
    const lock = locks.lock(WANTED)
    while (performance.now() < until) {
      const lease = await lock.acquire({ waitMs: timeMs + 60_000, signal: invocation.signal })
      if (freedAt !== undefined) samples.push(performance.now() - freedAt)
      freedAt = performance.now()
      await lease.release()
    }
  }

  await Promise.all(clients.map((locks) => contend(locks)))
  return { ...summary(samples, performance.now() - begin), clients: count }
}

function summary(samples: readonly number[], elapsedMs: number): Measured {
  const round = (value: number): number => Number(value.toFixed(3))
  return {
    count: samples.length,
    perSecond: Math.round((samples.length / elapsedMs) * 1_000),
    p50Ms: round(percentile(samples, 0.5)),
    p99Ms: round(percentile(samples, 0.99)),
  }
}
