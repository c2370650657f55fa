import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { LockError } from '@locks/core'
import { stallMeter } from '@locks/core/conformance'
import { describe, expect, test } from 'vitest'

interface Ended {
  readonly code: number | string | null
  readonly output: string
  readonly tookMs: number
}

/** Runs a program with the built package in a separate process, until it ends by itself. */
function run(body: string): Promise<Ended> {
  const core = new URL('../dist/index.js', import.meta.url).href
  const store = fileURLToPath(new URL('support/modules/plain-store.js', import.meta.url))
  const program = `
    import { createLocks } from ${JSON.stringify(core)}
    import { plainStore } from ${JSON.stringify(store)}
    const locks = createLocks(plainStore())
    ${body}`
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--input-type=module', '-e', program],
      { timeout: 120_000 },
      (error, stdout, stderr) => {
        unwatch()
        const code = error === null ? 0 : (error.code ?? error.signal ?? null)
        resolve({ code, output: stdout + stderr, tookMs: performance.now() - startedAt })
      },
    )
    const unwatch = stallMeter.watch(() => (child.pid === undefined ? [] : [child.pid]))
  })
}

describe('a process', () => {
  test('that still holds a renewed lease ends by itself', async () => {
    const { code, output } = await run(`
      const lease = await locks.lock('a').acquire({ ttlMs: 60_000 })
      console.log(lease.state)`)
    expect([code, output]).toEqual([0, 'held\n'])
  })

  test('that holds a lease it has been renewing ends by itself too', async () => {
    const { code, output } = await run(`
      const lease = await locks.lock('a').acquire({ ttlMs: 1_500 })
      await new Promise((resolve) => setTimeout(resolve, 2_000))
      console.log(lease.state)`)
    if (output === 'lost\n') throw new LockError('LOCK_LOST', 'it was lost, by a stall or without')
    expect([code, output]).toEqual([0, 'held\n'])
  })

  test('that waits for a lock stays until the outcome', async () => {
    const { code, output, tookMs } = await run(`
      await locks.lock('a').acquire()
      locks.lock('a').acquire({ waitMs: 500 }).catch((error) => console.log(error.code))`)
    expect([code, output]).toEqual([0, 'LOCK_TIMEOUT\n'])
    expect(tookMs).toBeGreaterThanOrEqual(500)
  })

  test('that closed its client ends at once', async () => {
    const { code, output } = await run(`
      await locks.lock('a').acquire()
      await locks.close()
      console.log('closed')`)
    expect([code, output]).toEqual([0, 'closed\n'])
  })

  test('whose store never answers gets an error and ends', async () => {
    const { code, output } = await run(`
      const silent = createLocks(plainStore({ silent: true }), { storeTimeoutMs: 200 })
      silent.lock('a').acquire().catch((error) => console.log(error.code))`)
    expect([code, output]).toEqual([0, 'LOCK_UNAVAILABLE\n'])
  })
})
