import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Lease, Locks } from '../../api/contract.ts'
import type { Grant } from '../../adapter/spi.ts'
import { checkHistory } from '../check-history.ts'
import type { CheckOptions } from '../check-history.ts'
import { confirmedDeadline } from '../contend.ts'
import type { Harness } from '../harness.ts'
import { createRecorder, readHistory } from '../history.ts'
import type { HistoryEvent, Recorder } from '../history.ts'
import type { TestAdapter } from '../test-adapter.ts'
import type { Bound } from '../time/bounds.ts'
import { assertHolder } from './observe.ts'

/** How long until a waiter gets the name of a vanished holder: ttl, one poll where nothing wakes it, 250 ms. */
export function takeOverMs(h: Harness): number {
  // No message announces an expiry: where the store does not hand off, waiters poll.
  const lookMs = { handoff: 0, notify: 500, poll: 2_000 }[h.capabilities.wait]
  return h.ttlMs + h.ms(lookMs + 250)
}

/** `takeOverMs` as a bound that is measured. */
export function takeOver(h: Harness, lockDelayMs = 0): Bound {
  const waitsMs = h.ttlMs + lockDelayMs
  return { ms: takeOverMs(h) + lockDelayMs, waitsMs, from: 'ttlMs + lockDelayMs + a look + 250 ms' }
}

/** Tries as often as possible until the hold of `lock` ends and `taker` has it. */
export function takeWhenOver(
  h: Harness,
  taker: TestAdapter,
  lock: string,
  within: number | Bound = h.ttlMs * 3,
): Promise<Grant> {
  const wanted = taker.request(lock)
  return h.eventually(`${lock} is granted again`, within, async () => {
    const answer = await taker.adapter.attempt(wanted)
    return 'fence' in answer && answer
  })
}

/**
 * Starts an acquire of a held lock and resolves when it waits. A holder with a short lease may have lost it by then.
 */
export async function startWaiting(
  locks: Locks,
  lock: string,
  waitMs: number,
  isHeld: () => boolean | Promise<boolean> = () => true,
): Promise<{ readonly granted: Promise<Lease> }> {
  const waits = new Promise<void>((resolve) => {
    const off = locks.on('contended', (event) => {
      if (event.lock !== lock) return
      off()
      resolve()
    })
  })
  const granted = locks.lock(lock).acquire({ waitMs })
  const early = granted.then(async ({ fence }) => {
    assert.ok(!(await isHeld()), `granted with fence ${fence} although held`)
    throw new Error('the holder lost its lease before another client waited')
  })
  await Promise.race([waits, early])
  return { granted }
}

/** Fails the rule unless each fence is higher than the one before, if the adapter has fences. */
export function assertRising(h: Harness, fences: readonly bigint[]): void {
  if (h.capabilities.fencing === 'none') return
  const rising = fences.every((fence, n) => fence > (fences[n - 1] ?? 0n))
  assert.ok(rising, `fences in the order of holds: ${fences.join(', ')}`)
}

/** Fails the rule unless `lease`, and no other, holds its name: here and at the store. */
export async function assertSoleHolder(h: Harness, lease: Lease): Promise<void> {
  await lease.extend()
  await assertHolder(h, lease)
  const { locks } = await h.client()
  const stolen = await locks.lock(lease.name).tryAcquire()
  assert.equal(stolen, null, `${lease.name} could be had although fence ${lease.fence} holds it`)
}

/** A recorder with a new file in `directory`. */
export function recorderIn(h: Harness, directory: string, process: string): Recorder {
  const recorder = createRecorder(historyFile(directory, process), process)
  h.onEnd(async () => recorder.close())
  return recorder
}

export function historyFile(directory: string, process: string): string {
  return join(directory, `${process}.jsonl`)
}

interface RecordedHold {
  readonly recorder: Recorder
  readonly task: string
  readonly waitMs: number
}

/** Holds `lock` while `body` runs, each step recorded. */
export async function recordedHold(
  locks: Locks,
  lock: string,
  { recorder, task, waitMs }: RecordedHold,
  body: (lease: Lease) => Promise<unknown>,
): Promise<void> {
  const act = { name: lock, task }
  recorder.record({ ...act, type: 'acquire-called' })
  const lease = await locks.lock(lock).acquire({ waitMs })
  const held = { ...act, fence: lease.fence }
  recorder.record({ ...held, type: 'granted', deadline: recorder.deadline(() => lease.remainingMs) })
  await body(lease)
  recorder.record({ ...held, type: 'renewed', deadline: await confirmedDeadline(lease, recorder) })
  recorder.record({ ...held, type: 'release-called' })
  await lease.release()
  recorder.record({ ...held, type: 'released' })
}

/** Fails the rule if what all processes recorded in `directory` violates an invariant. */
export function assertHistory(h: Harness, directory: string, options: CheckOptions): readonly HistoryEvent[] {
  const files = readdirSync(directory).filter((file) => file.endsWith('.jsonl'))
  const events = readHistory(files.map((file) => join(directory, file)))
  h.recorded(events)
  const fenced = h.capabilities.fencing !== 'none'
  const violations = checkHistory(events, options).filter(
    ({ invariant }) => fenced || invariant !== 'fence-order',
  )
  const shown = violations.slice(0, 10).map(({ invariant, message }) => `${invariant} ${message}`)
  // Not a violation, but not a test either: how much happens depends on the machine.
  if (violations.length > 0 && violations.every(({ invariant }) => invariant === 'coverage'))
    throw new Error(`too little happened: ${shown.join('; ')}`)
  // As a message: a diff of texts would be hard to read.
  assert.ok(violations.length === 0, `${violations.length} violations, such as\n${shown.join('\n')}`)
  return events
}
