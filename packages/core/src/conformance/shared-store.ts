import assert from 'node:assert/strict'
import { systemClock, orAfter } from '../adapter/time.ts'
import { loadAdapter } from '../config/open.ts'
import type { UncheckedConfig } from '../config/types.ts'
import { openTestAdapter } from './test-adapter.ts'

/** The check says nothing about a store that is slower than this. */
const MAX_MS = 5_000

/**
 * Fails if two clients of one config do not share a store: rules then fail in ways that do not show this. Not called
 * before a rule, which an adapter that crashes would never reach. Any other failure is left to the rule.
 */
export async function assertSharedStore(config: UncheckedConfig, name: string, ttlMs: number): Promise<void> {
  const separate = areSeparate(config, name, ttlMs).catch(() => false)
  assert.ok(
    (await orAfter(systemClock, MAX_MS, separate)) !== true,
    'two clients of one config do not share a store: a hold of one is not visible to the other. ' +
      'What fromConfig keeps inside the process, such as a Map, must live in the module',
  )
}

/** Whether a client sees its own hold, and another client of the same config does not. */
async function areSeparate(config: UncheckedConfig, name: string, ttlMs: number): Promise<boolean> {
  const holder = openTestAdapter(await loadAdapter(config))
  const other = openTestAdapter(await loadAdapter(config))
  try {
    const grant = await holder.take(holder.request(name, { ttlMs }))
    const seen = await other.adapter.inspect(name)
    const own = await holder.adapter.inspect(name)
    await holder.adapter.release(grant)
    return own.held && !seen.held
  } finally {
    await Promise.allSettled([holder.adapter.close(), other.adapter.close()])
  }
}
