import { eventually } from '@locks/core/conformance'
import { expect } from 'vitest'
import type { Server } from '../../../../conformance/services/index.ts'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'
import type { SqlAdapter } from '../../../sql/test/support/mutant.ts'
import { connect } from './setup.ts'

interface AdvisoryBed {
  readonly adapter: SqlAdapter
  readonly config: { readonly url: string; readonly schema: string }
}

type AdvisoryProbe = (bed: AdvisoryBed) => Promise<void>

const strategy = 'advisory'
const renewal = { ttlMs: 1_000, lockDelayMs: 0 }

export const twice: AdvisoryProbe = async ({ adapter: { fromConfig }, config }) => {
  const client = bareAdapter(fromConfig({ ...config, strategy }))
  await client.take(client.request('twice'))
  expect(await client.adapter.attempt(client.request('twice'))).toMatchObject({ busy: true })
}

export const expired: AdvisoryProbe = async ({ adapter: { fromConfig }, config }) => {
  const [client, other] = [1, 2].map(() => bareAdapter(fromConfig({ ...config, strategy })))
  if (client === undefined || other === undefined) throw new Error('no clients')
  const kept = await client.take(client.request('kept', { ttlMs: 1_000 }))
  await client.take(client.request('expired', { ttlMs: 500 }))
  await eventually('it has expired', 1_500, async () => {
    expect(await client.adapter.renew([{ grant: kept, ...renewal }])).toEqual(['renewed'])
    return 'fence' in (await other.adapter.attempt(other.request('expired')))
  })
}

export const ended =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const lost: unknown[] = []
    const report = (state: string, attemptId?: string): void =>
      void (state === 'lost' && lost.push(attemptId))
    const client = bareAdapter(fromConfig({ ...config, strategy }), { report })
    const { attemptId } = await client.take(client.request('ended'))
    await control.query(
      `SELECT pg_terminate_backend(pid) FROM "${config.schema}".locks_holders WHERE pid IS NOT NULL`,
    )
    await eventually('the loss is reported', 1_000, () => Promise.resolve(lost.includes(attemptId)))
  }

/** A probe that unlocks what its session has: nothing else can do that from outside. */
export const unlocked =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const trap = `${config.schema}_trap`
    await control.query(`CREATE SCHEMA ${trap}`)
    const options = encodeURIComponent(`-c search_path=${trap},pg_catalog,public`)
    const url = `${config.url}?options=${options}`
    const client = bareAdapter(fromConfig({ ...config, url, strategy }))
    const grant = await client.take(client.request('unlocked'))
    await control.query(`CREATE FUNCTION ${trap}.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_unlock_all(); RETURN NULL; END'`)
    expect(await client.adapter.renew([{ grant, ...renewal }])).toEqual(['renewed'])
    expect(await client.adapter.release(grant)).toBe('not-held')
  }
