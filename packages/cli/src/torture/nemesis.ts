import { setTimeout as pass } from 'node:timers/promises'
import type { Recorder } from '@locks/core/conformance'
import { isWireFault, lastingMs, wireFault } from './faults.ts'
import type { FaultKind, ServerFault } from './faults.ts'
import type { Proxies } from './proxies.ts'
import type { Random } from './random.ts'
import type { Turns } from './turns.ts'
import type { Worker } from './worker-slot.ts'

/** The position of one worker: a process, and its replacement after it was killed. */
export interface Place {
  readonly slot: number
  worker: Worker
  /** Starts the next one. */
  replace(): Promise<void>
}

export interface Stage {
  readonly ttlMs: number
  readonly recorder: Recorder
  readonly proxies: Proxies
  /** Limits how many workers have a fault at a time. */
  readonly turns: Turns
  readonly workers: () => readonly Worker[]
  /** Aborts when the faults end. */
  readonly calm: AbortSignal
  readonly onFault: (kind: string) => void
  /** A fault of the servers failed. */
  readonly onFailure: (why: string) => void
}

/** Injects faults into one worker, one at a time, in parallel with those of the other workers. */
export async function hurtWorker(
  place: Place,
  kinds: readonly [FaultKind, ...FaultKind[]],
  random: Random,
  stage: Stage,
): Promise<void> {
  await rest(random.between(200, 1_500), stage.calm)
  while (!stage.calm.aborted) {
    // Mostly some workers stay healthy: one of them is granted at once a lock that is freed too early.
    const sparing = random.chance(0.8)
    if (sparing) await stage.turns.take()
    if (!stage.calm.aborted) await hurt(place, kinds, random, stage)
    if (sparing) stage.turns.give()
    // Sometimes the next fault follows at once.
    await rest(random.chance(0.3) ? random.between(0, 30) : random.between(50, 800), stage.calm)
  }
}

async function hurt(
  place: Place,
  kinds: readonly [FaultKind, ...FaultKind[]],
  random: Random,
  stage: Stage,
): Promise<void> {
  const kind = random.pick(kinds)
  stage.onFault(kind)
  if (kind === 'kill') await kill(place, stage)
  else if (kind === 'delay' && kinds.includes('pause') && random.chance(0.3)) {
    // A paused process reads delayed replies all at once, and even later.
    stage.onFault('pause')
    await Promise.all([breakWire(place, kind, random, stage), stall(place, 'pause', random, stage)])
  } else if (isWireFault(kind)) await breakWire(place, kind, random, stage)
  else await stall(place, kind, random, stage)
  if (place.worker.gone && !stage.calm.aborted) await place.replace()
}

async function kill(place: Place, { recorder }: Stage): Promise<void> {
  recorder.record({ type: 'crash', victim: place.worker.process })
  await place.worker.kill()
  await place.replace()
}

async function breakWire(
  { slot, worker }: Place,
  kind: 'cut' | 'delay' | 'swallow' | 'refuse',
  random: Random,
  stage: Stage,
): Promise<void> {
  await during(`${kind} w${slot + 1}`, stage, async () => {
    for (const { fault, ms } of wireFault(kind, random, stage.ttlMs)) {
      stage.proxies.inject(slot, fault)
      if (fault.kind === 'cut' || fault.kind === 'flap' || fault.kind === 'refuse') worker.burst()
      await rest(ms, stage.calm)
    }
    stage.proxies.heal(slot)
  })
}

async function stall(
  { slot, worker }: Place,
  kind: 'pause' | 'block',
  random: Random,
  stage: Stage,
): Promise<void> {
  const ms = lastingMs(random, stage.ttlMs)
  await during(`${kind} w${slot + 1}`, stage, async () => {
    if (kind === 'block') {
      worker.block(ms, random.pick(['once', 'grant']))
      return rest(ms, stage.calm)
    }
    stage.proxies.note('stopped', worker.pid)
    worker.signal('SIGSTOP')
    await rest(ms, stage.calm)
    worker.signal('SIGCONT')
    stage.proxies.note('continued', worker.pid)
  })
}

/** Injects faults into the servers, with longer pauses: servers need time to come back. */
export async function hurtServers(
  faults: readonly [ServerFault, ...ServerFault[]],
  random: Random,
  stage: Stage,
): Promise<void> {
  await rest(random.between(500, 2_000), stage.calm)
  while (!stage.calm.aborted) {
    const fault = random.pick(faults)
    stage.onFault(fault.name)
    await during(`${fault.name} server`, stage, async () => {
      for (const worker of stage.workers()) worker.burst()
      try {
        await fault.run(random)
      } catch (error) {
        stage.onFailure(`${fault.name} failed: ${error instanceof Error ? error.message : String(error)}`)
      }
    })
    await rest(random.between(stage.ttlMs / 2, stage.ttlMs * 3), stage.calm)
  }
}

async function during(label: string, { recorder }: Stage, fault: () => Promise<void>): Promise<void> {
  recorder.record({ type: 'fault', label, class: 'E', phase: 'begin' })
  try {
    await fault()
  } finally {
    recorder.record({ type: 'fault', label, class: 'E', phase: 'end' })
  }
}

async function rest(ms: number, calm: AbortSignal): Promise<void> {
  await pass(ms, undefined, { signal: calm }).catch(() => undefined)
}
