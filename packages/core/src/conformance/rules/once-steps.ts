import assert from 'node:assert/strict'
import { safeTtlMs } from '../../adapter/time.ts'
import type { Harness } from '../harness.ts'
import { takeWhenOver } from './steps.ts'

/** Fails the rule if the name became free already, this long after its holder requested it. */
export function assertNotEarly(askedAt: number, minHoldMs: number, at: number = performance.now()): void {
  const tookMs = at - askedAt
  assert.ok(tookMs >= safeTtlMs(minHoldMs), `granted after ${tookMs} ms, before ${minHoldMs} ms were over`)
}

/** Fails the rule unless the name is free `minHoldMs` after its holder requested it, and not before. */
export async function freesInTime(
  h: Harness,
  lock: string,
  askedAt: number,
  minHoldMs: number,
): Promise<bigint> {
  const waitsMs = Math.max(0, askedAt + minHoldMs - performance.now())
  const bound = { ms: waitsMs + h.ms(250), waitsMs, from: 'minHoldMs + 250 ms' }
  const { fence } = await takeWhenOver(h, h.adapter(), lock, bound)
  assertNotEarly(askedAt, minHoldMs)
  return fence
}
