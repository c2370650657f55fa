import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { createRecorder, readHistory } from '@locks/core/conformance'
import { UsageError } from '../errors.ts'
import { isWatched, leaseMsOf } from './lease-length.ts'
import { leftovers } from './leftovers.ts'
import { checkEnd, checkProgress, checkSubstance } from './liveness.ts'
import type { Plan, TortureOptions, TortureResult } from './options.ts'
import { startProxies } from './proxies.ts'
import { routeOf } from '../route.ts'
import { isWireFault } from './faults.ts'
import { runStage } from './stage.ts'
import { judge } from './verdict.ts'
import type { Violation } from './violation.ts'

const STORE_TIMEOUT_MS = 3_000
/** For the client that looks for leftovers, even right after a server fault. */
const PATIENT_MS = 10_000

/** Runs workers on a backend, injects faults, and checks the history. Uses only the public API. */
export async function torture(options: TortureOptions): Promise<TortureResult> {
  const { config, store, seed } = options
  const began = performance.now()
  const runId = randomBytes(4).toString('hex')
  const prefix = `torture:${runId}:`
  const route = options.route ?? routeOf(config)
  const lasting = { ttlMs: options.ttlMs, storeTimeoutMs: PATIENT_MS }
  // Not through a proxy: this client looks for leftovers.
  const open = (): Promise<Locks> => openLocks(config, { ...lasting, ...(store !== undefined && { store }) })
  const locks = await open()
  const folder = await mkdtemp(join(options.historyIn ?? tmpdir(), 'locks-torture-'))
  const nemesis = createRecorder(join(folder, 'nemesis.jsonl'), 'nemesis')
  let proxies: Awaited<ReturnType<typeof startProxies>> | undefined
  try {
    const { scope, kind, fencing, lockDelay } = locks.capabilities
    if (scope === 'process')
      throw new UsageError(
        'this backend excludes only tasks of one process; torture needs a store that processes share',
      )
    const ttlMs = Math.max(options.ttlMs, await leaseMsOf(locks, `${prefix}lease`))
    const watched = kind === 'lease' && (await isWatched(locks, open, `${prefix}lease`))
    const leftOut = options.faults.filter((fault) => isWireFault(fault) && route.noWire !== undefined)
    const plan: Plan = {
      runId,
      ttlMs,
      quietMs: ttlMs * 2 + 3_000,
      ...(route.noWire !== undefined &&
        leftOut.length > 0 && { leftOut: { faults: leftOut, reason: route.noWire } }),
    }
    options.onBegin?.(plan)
    proxies = await startProxies(options.processes, route.targets)
    const faults = options.faults.filter((fault) => !leftOut.includes(fault))
    const seen = await runStage({
      ...options,
      ...plan,
      faults,
      prefix,
      folder,
      proxies,
      route,
      nemesis,
      storeTimeoutMs: STORE_TIMEOUT_MS,
    })
    // A lock-delay lasts for at most one lease.
    const lingerMs = ttlMs * (lockDelay ? 4 : 3) + STORE_TIMEOUT_MS + 1_000
    const left = await leftovers(locks, seen.names, lingerMs)
    const files = (await readdir(folder)).map((file) => join(folder, file))
    const events = readHistory(files)
    const byConnection = kind === 'connection'
    const lingering = { lingerMs, watched, sessions: kind === 'session' }
    const verdict = judge(events, { ttlMs, ...lingering, fenced: fencing !== 'none', byConnection })
    const wrong: Violation[] = [...checkEnd(seen.wrong, left)]
    const interrupted = options.signal?.aborted ?? false
    if (!interrupted)
      wrong.push(
        ...checkProgress(seen.alive, seen.moved, options.tasks),
        ...checkSubstance(verdict, seen.faults, faults, options),
      )
    return {
      ...verdict,
      ...plan,
      violations: [...verdict.violations, ...wrong],
      seed,
      interrupted,
      elapsedMs: performance.now() - began,
      faults: seen.faults,
      warnings: seen.warnings,
      events,
    }
  } finally {
    nemesis.close()
    await proxies?.close()
    await locks.close()
    if (options.historyIn === undefined) await rm(folder, { recursive: true, force: true })
  }
}
