import type { Locks } from '@locks/core'
import { expect, test } from 'vitest'

const ROUNDS = 200

/** Attempt and withdrawal may take different connections, which the server does not order. */
export function withdrawalTests(open: () => Locks): void {
  test('an acquire that is aborted as it is sent leaves nothing behind', async () => {
    const [locks, other] = [open(), open()]
    const names = Array.from({ length: ROUNDS }, (_, round) => `aborted:${round}`)
    for (const [round, name] of names.entries()) {
      const controller = new AbortController()
      const tried = locks.lock(name).acquire({ signal: controller.signal })
      if (round % 2 === 1) await new Promise((resolve) => setImmediate(resolve))
      controller.abort('enough')
      const lease = await tried.catch((reason: unknown) => {
        expect(reason).toBe('enough')
        return undefined
      })
      await lease?.release()
    }
    await locks.close()
    for (const name of names) expect(await other.inspect(name)).toMatchObject({ held: false })
  })
}
