import { writeFileSync } from 'node:fs'
import { loadAdapter, systemClock } from '@locks/core/adapter'
import { Harness } from '@locks/core/conformance'
import { afterAll, expect, test } from 'vitest'
import { startBackend } from './backends.ts'
import { situations } from './situations.ts'
import type { Observation } from './situations.ts'

/** Measures one backend for `scripts/behaviour.mjs`, which says which, how often and where to write it. */
const {
  LOCKS_BEHAVIOUR_BACKEND: backend = '',
  LOCKS_BEHAVIOUR_ROUNDS: rounds,
  LOCKS_BEHAVIOUR_FILE: file,
} = process.env

const stage = await startBackend(backend)
afterAll(() => stage.close())
const { subject } = stage
const factory = await loadAdapter(subject.config)
const adapter = factory({ clientId: 'behaviour', clock: systemClock, report: () => undefined })
await adapter.close?.()

const measured: Record<string, readonly Observation[]> = {}
let leaseMs = 0

for (const { id, needs, run } of situations)
  if (needs === 'processes' || subject.wire !== undefined)
    test(`${backend}: ${id}`, { timeout: 180_000 }, async () => {
      const all: Observation[] = []
      for (let round = 0; round < Number(rounds); round += 1)
        await new Harness(subject, factory, adapter.capabilities).run(async (h) => {
          leaseMs = h.ttlMs
          all.push(await run(h, h.name(id)))
        })
      measured[id] = all
      expect(all).toHaveLength(Number(rounds))
    })

afterAll(() => {
  if (file !== undefined) writeFileSync(file, JSON.stringify({ backend, leaseMs, measured }))
})
