import { access, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually, inTime, startChild } from '@locks/core/conformance'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { connect, library, open, startServer } from './support/setup.ts'

// What `PAUSE-6` of the suite tests by a break, which this strategy does not offer: here the server ends the connection.

const server = await startServer()
const advisory = { url: server.url, strategy: 'advisory', library } as const

test.each(['release', 'with'] as const)(
  'the server ends the connection of a holder whose event loop is blocked, another client is granted: %s rejects',
  async (by) => {
    const [control, successor] = [await connect(server), open(advisory)]
    const directory = await mkdtemp(join(tmpdir(), 'locks-stall-'))
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    const holder = await startChild()
    onTestFinished(() => holder.kill())
    await holder.call('open', { config: { adapter: '@locks/postgres', ...advisory }, options: {} })
    const lock = `stalled ${by}`
    const [blocked, goOn] = [join(directory, 'blocked'), join(directory, 'go-on')]
    const stalled = holder.call('stall', { lock, by, blocked, goOn, forMs: 1_500 })
    stalled.catch(() => undefined)
    const isBlocked = (): Promise<boolean> =>
      access(blocked).then(
        () => true,
        () => false,
      )
    await eventually('the holder blocks its event loop', scaled(10_000), isBlocked)
    const { rowCount } = await control.query(
      `SELECT pg_terminate_backend(l.pid) FROM locks_holders h JOIN pg_locks l ON l.locktype = 'advisory'
         AND l.granted AND (l.classid::bigint << 32) | l.objid::bigint = h.key WHERE h.name = $1`,
      [Buffer.from(lock)],
    )
    expect(rowCount).toBe(1)
    const lease = await successor.lock(lock).acquire({ waitMs: scaled(10_000) })
    await writeFile(goOn, '')
    const { assertHeld, state, remainingMs, end } = await inTime('its end', scaled(20_000), stalled)
    expect(assertHeld).not.toBe('ok')
    expect(state).not.toBe('held')
    expect(remainingMs).toBe(0)
    expect(end).toBe('LOCK_LOST')
    // Its release did not touch the successor.
    await lease.extend()
    await lease.release()
  },
)
