import { checkHistory, createRecorder, readHistory, startChild, summarise } from '@locks/core/conformance'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { temporaryDirectory } from './support/bed.ts'

const slow = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)
const PROCESSES = 8
const CYCLES = atLength(60, 200)
const BATCH = 20
const KILLS = atLength(4, 12)
/** So many batches apart: by progress, not by time, so that a slow machine sees as many of them. */
const KILL_EVERY = Math.floor((PROCESSES * CYCLES) / BATCH / (KILLS + 1))
const ttlMs = 1_000 * slow

test(`${PROCESSES} processes × ${CYCLES} cycles with random kills: no violation, nothing left over`, async () => {
  const [directory, work] = [await temporaryDirectory(), await temporaryDirectory()]
  const counter = join(work, 'counter')
  await writeFile(counter, '0')
  const parent = createRecorder(join(work, 'parent.jsonl'), 'parent')
  onTestFinished(() => parent.close())
  const running = new Map<string, { kill(): Promise<void> }>()
  const contending = new Set<string>()
  const kills: Promise<void>[] = []
  let [started, batches] = [0, 0]

  /** Works in batches until all its cycles are done; a batch that was killed is done again by a new process. */
  async function slot(): Promise<void> {
    for (let done = 0; done < CYCLES;) {
      const label = `p${++started}`
      const child = await startChild()
      onTestFinished(() => child.kill())
      running.set(label, child)
      try {
        await child.call('open', { config: `file:${directory}`, options: { ttlMs } })
        for (let batch = 0; done < CYCLES; batch += 1) {
          const file = join(work, `${label}-${batch}.jsonl`)
          const load = { lock: 'order', tasks: 2, cycles: BATCH / 2, waitMs: 60_000 * slow, counter }
          contending.add(label)
          await child.call('contend', { ...load, process: `${label}-${batch}`, file })
          done += BATCH
          batches += 1
          if (batches % KILL_EVERY === 0 && kills.length < KILLS) kills.push(killSomebody())
        }
        await child.call('close', {})
        running.delete(label)
        await child.kill()
      } catch (error) {
        if (running.has(label)) throw error
      }
    }
  }

  async function killSomebody(): Promise<void> {
    // Anywhere in what it does.
    await pass(Math.random() * 200)
    const labels = [...running.keys()].filter((label) => contending.has(label))
    const victim = labels[Math.floor(Math.random() * labels.length)]
    const child = victim === undefined ? undefined : running.get(victim)
    if (victim === undefined || child === undefined) return
    running.delete(victim)
    const files = (await readdir(work)).filter((file) => file.startsWith(`${victim}-`))
    for (const file of files) parent.record({ type: 'crash', victim: file.replace('.jsonl', '') })
    await child.kill()
  }

  await Promise.all(Array.from({ length: PROCESSES }, slot))
  await Promise.all(kills)

  const files = (await readdir(work)).filter((file) => file.endsWith('.jsonl'))
  const events = readHistory(files.map((file) => join(work, file)))
  const floors = { grants: PROCESSES * CYCLES, contendedWaits: (PROCESSES * CYCLES) / 2, faults: KILLS / 2 }
  expect(checkHistory(events, { floors }).slice(0, 5)).toEqual([])
  expect(summarise(events).maxHolders).toBe(1)
  // One of the clients may have pruned.
  const left = (await readdir(directory, { recursive: true })).filter((file) => file !== '.pruned')
  expect(left.toSorted()).toEqual([
    '.floor',
    '.floor/0',
    folderOf('order'),
    expect.stringMatching(/-[0-9a-f]{32}\/\d+$/),
  ])
})
