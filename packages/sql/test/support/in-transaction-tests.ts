import type { Locks } from '@locks/core'
import { isLockError } from '@locks/core'
import { assertInTime, eventually, inTime } from '@locks/core/conformance'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { atLength } from '../../../../conformance/selection.ts'
import { scaled } from '../../../../conformance/services/timing.ts'

/** A connection of the program, past the adapter. */
export interface Session {
  /** What `lockInTransaction` takes. */
  readonly tx: object
  /** Runs a statement, and returns the first column of the first row. */
  readonly run: (sql: string) => Promise<unknown>
  /** Cuts the connection without a word. */
  readonly drop: () => void
}

interface Locked {
  readonly name: string
  readonly fence: bigint
}

type LockInTransaction = (
  tx: object,
  name: string,
  options?: { readonly waitMs?: number; readonly table?: string },
) => Promise<Locked>

export interface TransactionBed {
  readonly url: string
  readonly lockInTransaction: LockInTransaction
  readonly connect: () => Promise<Session>
  readonly open: (config: Readonly<Record<string, unknown>>) => Locks
  /** A program that locks the name of its first argument in a transaction, prints a line, and does not end it. */
  readonly holding: { readonly file: string; readonly url: string }
  /** A pool, and other objects that are not a transaction. */
  readonly notTransactions: () => readonly object[]
}

const waitMs = scaled(20_000)

export function inTransactionTests(bed: TransactionBed): void {
  const { url, lockInTransaction, connect, open } = bed
  const row = (): Locks => open({ url, strategy: 'row' })

  async function begun(): Promise<Session> {
    const session = await connect()
    await session.run('BEGIN')
    return session
  }

  /** Whether the transaction still runs statements. */
  async function isUsable({ run }: Session): Promise<void> {
    expect(Number(await run('SELECT 7'))).toBe(7)
    await run('COMMIT')
  }

  describe('a lock in a transaction', () => {
    test.for(['a name used before', 'a new name'])('excludes strategy row, on %s', async (kind) => {
      const locks = row()
      const name = `with row, ${kind}`
      if (kind !== 'a new name') await locks.with(name, () => undefined)
      const session = await begun()
      const held = await lockInTransaction(session.tx, name)
      await inTime('a try', 1_500, locks.lock(name).tryAcquire().then(expectNull))
      expect(await locks.inspect(name)).toMatchObject({
        held: true,
        holder: { owner: expect.stringContaining('transaction') as unknown },
      })
      const turn = locks.lock(name).acquire({ waitMs })
      await session.run('COMMIT')
      const lease = await turn
      expect(lease.fence).toBeGreaterThan(held.fence)
      await lease.release()
      expect(await locks.inspect(name)).toMatchObject({ held: false })
    })

    test('is excluded by strategy row, and waits for its release', async () => {
      const locks = row()
      const lease = await locks.lock('behind row').acquire()
      const session = await begun()
      const refused = lockInTransaction(session.tx, 'behind row', { waitMs: 0 })
      await expect(refused).rejects.toMatchObject({ code: 'LOCK_TIMEOUT', lock: 'behind row' })
      const turn = lockInTransaction(session.tx, 'behind row', { waitMs })
      await lease.extend()
      await lease.release()
      expect((await turn).fence).toBeGreaterThan(lease.fence)
      expect(await locks.lock('behind row').tryAcquire()).toBeNull()
      await session.run('COMMIT')
    })

    test('fences rise over commits and rollbacks, together with those of row', async () => {
      const locks = row()
      const fences: bigint[] = []
      for (const end of ['ROLLBACK', 'COMMIT', 'ROLLBACK', 'ROLLBACK', 'COMMIT']) {
        const session = await begun()
        fences.push((await lockInTransaction(session.tx, 'rising')).fence)
        await session.run(end)
        if (fences.length % 2 === 0) await locks.with('rising', ({ fence }) => void fences.push(fence))
      }
      expect(fences).toEqual(fences.toSorted((a, b) => Number(a - b)))
      expect(new Set(fences).size).toBe(fences.length)
    })

    test('a rollback frees it for the next in the queue', async () => {
      const [first, second, third] = [await begun(), await begun(), await begun()]
      await lockInTransaction(first.tx, 'rolled back')
      const turns = [second, third].map(async ({ tx, run }) => {
        const { fence } = await lockInTransaction(tx, 'rolled back', { waitMs })
        await run('COMMIT')
        return fence
      })
      await first.run('ROLLBACK')
      const fences = await Promise.all(turns)
      expect(new Set(fences).size).toBe(2)
    })

    test.for([0, 300])('a time-out after %i ms leaves the transaction usable', async (ms) => {
      const [holder, other] = [await begun(), await begun()]
      await lockInTransaction(holder.tx, 'timed out')
      const startedAt = performance.now()
      const error = await lockInTransaction(other.tx, 'timed out', { waitMs: ms }).catch(
        (reason: unknown) => reason,
      )
      const tookMs = performance.now() - startedAt
      expect(isLockError(error, 'LOCK_TIMEOUT')).toBe(true)
      expect(tookMs).toBeGreaterThanOrEqual(ms)
      await assertInTime('the time-out', ms + 1_000, tookMs)
      await isUsable(other)
      await holder.run('ROLLBACK')
    })

    test('a dropped connection and a killed process free it', async () => {
      const [dropped, next] = [await begun(), await begun()]
      await lockInTransaction(dropped.tx, 'cut off')
      const turn = lockInTransaction(next.tx, 'cut off', { waitMs })
      dropped.drop()
      await turn
      await next.run('COMMIT')
      const child = spawn(process.execPath, [bed.holding.file, bed.holding.url, 'killed'], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      await once(child.stdout, 'data')
      const survivor = await begun()
      await expect(lockInTransaction(survivor.tx, 'killed', { waitMs: 0 })).rejects.toMatchObject({
        code: 'LOCK_TIMEOUT',
      })
      child.kill('SIGKILL')
      await lockInTransaction(survivor.tx, 'killed', { waitMs })
      await survivor.run('COMMIT')
    })

    test('a lost connection is an outage', async () => {
      const session = await begun()
      session.drop()
      await expect(lockInTransaction(session.tx, 'lost')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    })

    test('is refused outside a transaction, and locks nothing', async () => {
      const [outside, inside] = [await connect(), await begun()]
      const refused = {
        code: 'LOCK_INVALID_ARGUMENT',
        message: expect.stringContaining('not in a transaction') as unknown,
      }
      await expect(lockInTransaction(outside.tx, 'outside')).rejects.toMatchObject(refused)
      await lockInTransaction(inside.tx, 'outside', { waitMs: 0 })
      await expect(lockInTransaction(outside.tx, 'outside', { waitMs: 0 })).rejects.toMatchObject(refused)
      await inside.run('COMMIT')
    })

    test('anything else than a transaction is refused before a statement is sent', async () => {
      for (const tx of [{}, [], new Map(), Promise.resolve(), new String('BEGIN'), ...bed.notTransactions()])
        await expect(lockInTransaction(tx, 'refused')).rejects.toMatchObject({
          code: 'LOCK_INVALID_ARGUMENT',
          message: expect.stringMatching(/tx (must be|is )/) as unknown,
        })
    })

    test('wrong names and options are refused before a statement is sent', async () => {
      const sent: string[] = []
      const tx = async (sql: string): Promise<unknown> => void sent.push(sql)
      for (const name of ['', 'x'.repeat(1_025), '\uD800'])
        await expect(lockInTransaction(tx, name)).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
      for (const options of [{ waitMs: -1 }, { waitMs: 1.5 }, { table: 'a"`b' }, { wait: 1 }])
        await expect(lockInTransaction(tx, 'a', options)).rejects.toMatchObject({
          code: 'LOCK_INVALID_ARGUMENT',
        })
      expect(sent).toEqual([])
    })

    test('a reply to another statement is not a grant', async () => {
      const session = await begun()
      const shifted = async (sql: string): Promise<unknown> => {
        await session.run(sql)
        return [{ reply: 'f00d 1 read-committed t row 0' }]
      }
      await expect(lockInTransaction(shifted, 'shifted')).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
      await session.run('ROLLBACK')
    })

    test('without the tables the error says what to do', async () => {
      const session = await begun()
      const refused = lockInTransaction(session.tx, 'a', { table: 'nowhere' })
      await expect(refused).rejects.toMatchObject({
        code: 'LOCK_INVALID_ARGUMENT',
        message: expect.stringContaining('npx -p @locks/cli locks migrate') as unknown,
      })
      await session.run('ROLLBACK')
    })

    test('is refused where the locks belong to another strategy', async () => {
      await open({ url, strategy: 'unique-key' }).with('owned', () => undefined)
      const session = await begun()
      await expect(lockInTransaction(session.tx, 'owned')).rejects.toMatchObject({
        code: 'LOCK_INVALID_ARGUMENT',
        message: expect.stringContaining('unique-key') as unknown,
      })
      await session.run('ROLLBACK')
    })

    test('names are taken as they are', async () => {
      const names = ["it's", 'a"b`c\\', '$locks$; --', 'ß', '__proto__', ':a ?', 'x'.repeat(1_024)]
      const locks = row()
      for (const name of names) {
        const session = await begun()
        await lockInTransaction(session.tx, name)
        expect((await locks.inspect(name)).held).toBe(true)
        expect((await locks.inspect(`${name.slice(0, -1)}~`)).held).toBe(false)
        await session.run('COMMIT')
      }
    })

    test('contending transactions count exactly', async () => {
      const control = await connect()
      await control.run('CREATE TABLE counted (n int NOT NULL)')
      onTestFinished(async () => void (await control.run('DROP TABLE counted')))
      await control.run('INSERT INTO counted VALUES (0)')
      const turns = atLength(100, 1_000)
      const fences: bigint[] = []
      let left = turns
      const workers = Array.from({ length: 5 }, async () => {
        const { tx, run } = await connect()
        while (left-- > 0) {
          await run('BEGIN')
          const { fence } = await lockInTransaction(tx, 'counted', { waitMs: scaled(60_000) })
          fences.push(fence)
          // Read and write apart: without the lock, some turns would be lost.
          const n = Number(await run('SELECT n FROM counted'))
          await run(`UPDATE counted SET n = ${n + 1}`)
          await run('COMMIT')
        }
      })
      await Promise.all(workers)
      expect(Number(await control.run('SELECT n FROM counted'))).toBe(turns)
      expect(fences).toEqual(fences.toSorted((a, b) => Number(a - b)))
      expect(new Set(fences).size).toBe(turns)
    })

    test('transactions and holders of row never overlap', async () => {
      const locks = [row(), row()]
      let inside = 0
      const turn = async (): Promise<void> => {
        expect(++inside).toBe(1)
        await new Promise((resolve) => setImmediate(resolve))
        inside -= 1
      }
      const rounds = Array.from({ length: 12 })
      const held = locks.map(async (client) => {
        for (const _ of rounds) await client.with('mixed', { waitMs }, turn)
      })
      const inTransactions = [1, 2, 3].map(async (n) => {
        const { tx, run } = await connect()
        for (const [round] of rounds.entries()) {
          await run('BEGIN')
          await lockInTransaction(tx, 'mixed', { waitMs })
          await turn()
          await run((round + n) % 3 === 0 ? 'ROLLBACK' : 'COMMIT')
        }
      })
      await Promise.all([...held, ...inTransactions])
      await eventually('it is free', 5_000, async () => !(await row().inspect('mixed')).held)
    })
  })
}

function expectNull(value: unknown): void {
  expect(value).toBeNull()
}
