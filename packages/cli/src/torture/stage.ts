import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { createRecorder } from '@locks/core/conformance'
import type { Recorder } from '@locks/core/conformance'
import { burstTasks } from './burst.ts'
import { keepersOf, keptNames } from './keeper.ts'
import { leastGrants, tasksOf } from './liveness.ts'
import { countsByTarget, isWireFault } from './faults.ts'
import type { FaultKind } from './faults.ts'
import { hurtServers, hurtWorker } from './nemesis.ts'
import type { Place } from './nemesis.ts'
import type { Plan, Progress, TortureOptions } from './options.ts'
import { patiently, watchWorkers } from './patience.ts'
import type { Proxies } from './proxies.ts'
import { seeded } from './random.ts'
import { ownName } from './run-task.ts'
import { fencedResource } from './resource.ts'
import type { Route } from '../route.ts'
import { turns } from './turns.ts'
import { startWorker } from './worker-slot.ts'
import type { Worker } from './worker-slot.ts'

const PROGRESS_MS = 60_000
/** Extra time for a machine that is too slow for the grants and faults that a run needs. */
const MORE_MS = 120_000

export interface StageOptions extends TortureOptions, Plan {
  readonly prefix: string
  /** For the histories. */
  readonly folder: string
  readonly proxies: Proxies
  readonly route: Route
  readonly nemesis: Recorder
  readonly storeTimeoutMs: number
}

/** What the parent process observed. */
export interface Seen {
  readonly names: readonly string[]
  readonly wrong: readonly string[]
  readonly warnings: readonly string[]
  readonly faults: Readonly<Record<string, number>>
  /** The tasks that were granted a lock after the last fault. */
  readonly moved: ReadonlySet<string>
  /** The processes that lived to the end. */
  readonly alive: readonly string[]
}

/** Starts the workers, injects faults, lets the workers continue without faults, and stops them. */
export async function runStage(options: StageOptions): Promise<Seen> {
  const { processes, tasks, prefix, nemesis, proxies, seed, ttlMs } = options
  const began = performance.now()
  const wrong: string[] = []
  const warnings = new Set<string>()
  const faults: Record<string, number> = {}
  const moved = new Set<string>()
  let grants = 0
  let phase: Progress['phase'] = 'faults'
  const resource = createRecorder(join(options.folder, 'resource.jsonl'), 'resource')
  const write = fencedResource(resource)
  const shared = [
    `${prefix}1`,
    ...Array.from({ length: options.names - 1 }, (_, n) => `${prefix}${n + 2}`),
  ] as const
  const first = shared[0] ?? ''

  // A proxy accepts connections that a server refuses, which hides what clients do then: half do without.
  const hurtsServers = (options.serverFaults ?? []).length > 0
  const isDirect = (slot: number): boolean => hurtsServers && slot >= Math.ceil(processes / 2)

  const start = (slot: number, generation: number): Promise<Worker> => {
    const process = `w${slot + 1}.${generation}`
    const order = {
      config: isDirect(slot) ? options.config : options.route.through(proxies.addresses(slot)),
      ...(options.store !== undefined && { store: options.store }),
      process,
      file: join(options.folder, `${process}.jsonl`),
      names: [first, ...shared.slice(1)] as const,
      prefix,
      tasks,
      seed: seed + slot * 7919 + generation * 104_729,
      ttlMs: options.ttlMs,
      storeTimeoutMs: options.storeTimeoutMs,
    }
    return startWorker(order, {
      granted: (task) => {
        grants += 1
        if (phase === 'quiet') moved.add(`${process}/${task}`)
      },
      write,
      wrong: (what) => wrong.push(what),
      warning: (text) => warnings.add(`${process}: ${text}`),
    })
  }
  const places = await Promise.all(
    Array.from({ length: processes }, async (_, slot): Promise<Place> => {
      let generation = 1
      const place: Place = {
        slot,
        worker: await start(slot, generation),
        async replace() {
          generation += 1
          place.worker = await start(slot, generation)
        },
      }
      return place
    }),
  )

  let endWatch: (() => void) | undefined
  const calm = new AbortController()
  const tell = (): void =>
    options.onProgress?.({ phase, elapsedMs: performance.now() - began, grants, faults: sum(faults) })
  const ticker = setInterval(tell, 1_000)
  const stage = {
    ttlMs,
    recorder: nemesis,
    proxies,
    turns: turns(Math.max(1, Math.floor(processes / 2))),
    workers: () => places.map(({ worker }) => worker).filter(({ gone }) => !gone),
    calm: calm.signal,
    onFault: (kind: string) => (faults[kind] = (faults[kind] ?? 0) + 1),
    onFailure: (why: string) => warnings.add(why),
  }
  try {
    const [fault, ...others] = options.serverFaults ?? []
    const hands = [
      ...places.flatMap((place) => {
        const apply = (kind: FaultKind): boolean => !isDirect(place.slot) || !isWireFault(kind)
        const [kind, ...kinds] = options.faults.filter(apply)
        return kind === undefined
          ? []
          : [hurtWorker(place, [kind, ...kinds], seeded(seed, place.slot), stage)]
      }),
      ...(fault === undefined ? [] : [hurtServers([fault, ...others], seeded(seed, 1_000), stage)]),
    ]
    const failed = Promise.all(hands).then(() => undefined)
    const { forMs, serverFaults = [] } = options
    await Promise.race([failed.then(() => rest(forMs, options.signal)), rest(forMs, options.signal)])
    const least = leastGrants(options)
    const isLittle = (): boolean =>
      grants < least ||
      Object.values(countsByTarget(options.faults, serverFaults, faults)).some((count) => count === 0)
    while (isLittle() && performance.now() - began < options.forMs + MORE_MS && !options.signal?.aborted)
      await rest(100, options.signal)
    calm.abort()
    await failed
    phase = 'quiet'
    endWatch = watchWorkers(() => places.map(({ worker }) => worker.pid))
    await rest(options.quietMs, options.signal)
    const alive = places.filter(({ worker }) => !worker.gone).map(({ worker }) => worker.process)
    const moves = (): boolean => tasksOf(alive, tasks).every((task) => moved.has(task))
    const waited = await patiently(PROGRESS_MS, moves, options.signal)
    if (waited !== undefined) warnings.add(`waited for a lock of every task after the last fault: ${waited}`)
    phase = 'stopping'
    tell()
    const boundMs = ttlMs + options.storeTimeoutMs * 2 + 10_000
    await Promise.all(places.filter(({ worker }) => !worker.gone).map(({ worker }) => worker.stop(boundMs)))
    const own = places.flatMap(({ worker }) =>
      [
        ...tasksOf([''], tasks).map((task) => task.slice(1)),
        ...keepersOf(tasks).map(({ task }) => task),
        ...burstTasks,
      ].map((task) => ownName({ order: { prefix, process: worker.process }, task })),
    )
    return {
      names: [...shared, ...keptNames(prefix, tasks), ...own],
      wrong,
      warnings: [...warnings],
      faults,
      moved,
      alive,
    }
  } finally {
    clearInterval(ticker)
    endWatch?.()
    calm.abort()
    await Promise.all(places.filter(({ worker }) => !worker.gone).map(({ worker }) => worker.kill()))
    resource.close()
  }
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0)
}

async function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await pass(Math.max(0, ms), undefined, signal && { signal }).catch(() => undefined)
}
