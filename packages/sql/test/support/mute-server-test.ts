import { assertInTime } from '@locks/core/conformance'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { startProgram } from '../../../../conformance/test-support/program.ts'

interface Opening {
  /** Where its package is found. */
  readonly cwd: string
  readonly adapter: string
  readonly strategy: string
  readonly urlOf: (port: number) => string
}

/** A connection that is still being opened when its client is closed must not keep the process alive. */
export function muteServerTest({ cwd, adapter, strategy, urlOf }: Opening): void {
  test(`${strategy}: a program that closed its client exits, although the server never answers`, async () => {
    const accepted = new Set<Socket>()
    const mute = createServer((socket) => void accepted.add(socket.on('error', () => undefined)))
    onTestFinished(() => {
      for (const socket of accepted) socket.destroy()
      mute.close()
    })
    await once(mute.listen(0, '127.0.0.1'), 'listening')
    const address = mute.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    const program = `
      import { createLocks } from '@locks/core'
      import { fromConfig } from '${adapter}'
      const config = { url: '${urlOf(address.port)}', strategy: '${strategy}' }
      const locks = createLocks(fromConfig(config), { storeTimeoutMs: 200 })
      await locks.lock('a').tryAcquire().catch(() => undefined)
      await locks.close()
      process.stdout.write('closed')
    `
    const { exited } = await startProgram(program, cwd)
    const closedAt = performance.now()
    expect(await exited).toEqual([0, null])
    // Drivers give up by themselves after five seconds.
    await assertInTime('its end', 3_000, performance.now() - closedAt)
  })
}
