import { assertInTime } from '@locks/core/conformance'
import { fileStore } from '@locks/cas'
import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { folderOf } from '../src/stores/file-paths.ts'
import { bare, isBusy, temporaryDirectory } from './support/bed.ts'

/** Why there are no notes: they need to identify the run of the host's clock. */
const missing = process.platform === 'linux' ? undefined : 'only Linux identifies the run of its clock'

/** As a process that tries once and ends, without earlier observations. */
function newcomer(directory: string): ReturnType<typeof bare> {
  return bare(fileStore({ directory }))
}

describe('processes that only ever look once', () => {
  test('take over from a dead holder, and not before its time', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const directory = await temporaryDirectory()
    const holder = newcomer(directory)
    const sentAt = performance.now()
    const { fence } = await holder.take(holder.request({ ttlMs: 500 }))
    let looks = 0
    for (;;) {
      const other = newcomer(directory)
      const answer = await other.adapter.attempt(other.request())
      looks += 1
      if ('busy' in answer) {
        await assertInTime('a takeover', 20_000, performance.now() - sentAt)
        continue
      }
      expect(performance.now() - sentAt).toBeGreaterThanOrEqual(500)
      expect(answer.fence).toBeGreaterThan(fence)
      break
    }
    expect(looks).toBeGreaterThan(1)
    // What they noted of the dead one is gone with it.
    expect(await readdir(join(directory, folderOf('order')))).toHaveLength(1)
  })

  test('do not take over from one that renews', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const directory = await temporaryDirectory()
    const holder = newcomer(directory)
    const grant = await holder.take(holder.request({ ttlMs: 60_000 }))
    for (let n = 0; n < 20; n += 1) {
      const other = newcomer(directory)
      expect(await isBusy(other, other.request())).toBe(true)
      if (n % 5 === 0)
        expect(await holder.adapter.renew([{ grant, ttlMs: 60_000, lockDelayMs: 0 }])).toEqual(['renewed'])
    }
  })

  test('get how long a version is known, and nothing of another one', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const directory = await temporaryDirectory()
    const store = fileStore({ directory })()
    const made = await store.put('order', 'one', undefined, true)
    if (!('version' in made)) throw new Error('it was there')
    const current = { value: 'one', version: made.version }
    const notedFrom = performance.now()
    expect(await store.seenForMs?.('order', current)).toBe(0)
    const told = await fileStore({ directory })().seenForMs?.('order', current)
    expect(told).toBeGreaterThan(0)
    expect(told).toBeLessThanOrEqual(performance.now() - notedFrom)
    expect(await store.seenForMs?.('order', { ...current, value: 'two' })).toBe(0)
    expect(await store.seenForMs?.('order', { ...current, version: current.version + 1n })).toBe(0)
    // A key whose value was deleted can be created again, whatever was noted.
    await unlink(join(directory, folderOf('order'), String(made.version)))
    expect(await store.get('order')).toBe(undefined)
    expect(await store.put('order', 'again', undefined, true)).toHaveProperty('version')
    await store.close()
  })
})
