import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { contend } from '../contend.ts'
import type { Contention, Counter } from '../contend.ts'
import type { Rule } from '../rule.ts'
import { assertHistory, historyFile, recordedHold, recorderIn } from './steps.ts'

function counterInMemory(): Counter {
  let value = 0
  return { read: () => value, write: (next) => void (value = next) }
}

function updatesOf(contentions: readonly Contention[]): number {
  return contentions.reduce((sum, { updates }) => sum + updates, 0)
}

export const uniqueness: readonly Rule[] = [
  {
    id: 'UNIQ-1',
    title: 'processes that contend hold the lock one at a time, and none of their updates is lost',
    kind: 'required',
    needs: ['processes'],
    timeoutMs: 60_000,
    async run(h) {
      const lock = h.name()
      const directory = await h.directory()
      const counter = join(directory, 'counter')
      writeFileSync(counter, '0')
      const load = { lock, tasks: 8, cycles: 13, waitMs: h.ms(40_000), counter }
      const children = await Promise.all(Array.from({ length: 4 }, () => h.child()))
      const contentions = await Promise.all(
        children.map((child, n) =>
          child.call('contend', { ...load, process: `${n}`, file: historyFile(directory, `${n}`) }),
        ),
      )
      assertHistory(h, directory, { floors: { grants: 400, contendedWaits: 300, faults: 0 } })
      assert.equal(Number(readFileSync(counter, 'utf8')), updatesOf(contentions), 'updates were lost')
    },
  },
  {
    id: 'UNIQ-2',
    title: 'clients of one process that contend hold the lock one at a time, and no update is lost',
    kind: 'required',
    timeoutMs: 60_000,
    async run(h) {
      const directory = await h.directory()
      const counter = counterInMemory()
      const load = { lock: h.name(), tasks: 8, cycles: 10, waitMs: h.ms(40_000), counter }
      const clients = await Promise.all(Array.from({ length: 4 }, () => h.client()))
      const contentions = await Promise.all(
        clients.map(({ locks }, n) =>
          contend(locks, { ...load, recorder: recorderIn(h, directory, `client ${n}`) }),
        ),
      )
      assertHistory(h, directory, { floors: { grants: 320, contendedWaits: 240, faults: 0 } })
      assert.equal(counter.read(), updatesOf(contentions), 'updates were lost')
    },
  },
  {
    id: 'UNIQ-3',
    title: 'holds that outlast their ttl by renewal never overlap, while others wait',
    kind: 'required',
    async run(h) {
      const lock = h.name()
      const directory = await h.directory()
      const recorder = recorderIn(h, directory, 'clients')
      const clients = await Promise.all(Array.from({ length: 3 }, () => h.client({ ttlMs: h.ttlMs })))
      await Promise.all(
        clients.map(({ locks }, n) =>
          recordedHold(locks, lock, { recorder, task: `client ${n}`, waitMs: h.ttlMs * 20 }, () =>
            pass(h.ttlMs * 2),
          ),
        ),
      )
      assertHistory(h, directory, { floors: { grants: 3, contendedWaits: 2, faults: 0 } })
    },
  },
  {
    id: 'UNIQ-4',
    title: 'each of many names contended at once is exclusive by itself',
    kind: 'required',
    timeoutMs: 60_000,
    async run(h) {
      const directory = await h.directory()
      const load = { tasks: 2, cycles: 5, waitMs: h.ms(40_000) }
      const names = Array.from({ length: 8 }, () => ({ lock: h.name(), counter: counterInMemory() }))
      const clients = await Promise.all(Array.from({ length: 4 }, () => h.client()))
      const recorded = clients.map((client, n) => ({ ...client, recorder: recorderIn(h, directory, `${n}`) }))
      const updates = await Promise.all(
        names.map(async (name) =>
          updatesOf(
            await Promise.all(
              recorded.map(({ locks, recorder }) => contend(locks, { ...load, ...name, recorder })),
            ),
          ),
        ),
      )
      assertHistory(h, directory, { floors: { grants: 320, contendedWaits: 160, faults: 0 } })
      assert.deepEqual(
        names.map(({ counter }) => counter.read()),
        updates,
        'updates were lost',
      )
    },
  },
]
