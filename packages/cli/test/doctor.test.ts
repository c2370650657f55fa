import { describe, expect, test } from 'vitest'
import { inTime, locks, ownAdapter, store } from './support/cli.ts'

describe('locks doctor', inTime, () => {
  test('acquires, renews and releases its own lock, and reports how long that took', async () => {
    const { url, client } = await store()
    const { code, stdout } = await locks(['doctor', url]).ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/^✓ reachable: /m)
    expect(stdout).toMatch(/^✓ permissions: a lock was acquired, renewed and released$/m)
    expect(stdout).toMatch(/^[✓!] timing: median of 15: acquire .* ms, renew .* ms, inspect .* ms$/m)
    expect(await client.inspect('/locks-doctor-probe')).toMatchObject({ held: false })
  })

  test('gives advice for an unreachable backend, and exits with 69', async () => {
    const { code, stdout } = await locks(['doctor', 'redis://127.0.0.1:1', '--json']).ended
    expect(code).toBe(69)
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      findings: [{ check: 'scope' }, { check: 'reachable', level: 'danger' }],
    })
    expect(stdout).toMatch(/"advice": "check the address/)
  })

  test('reports what a reachable but unusable backend lacks, not that it is unreachable', async () => {
    const bare = `inspect: async () => { throw new LockError('LOCK_INVALID_ARGUMENT', 'run migrate() first') }`
    const { code, stdout } = await locks(['doctor', '--json', '--config', await ownAdapter(bare)]).ended
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      findings: [{ check: 'scope' }, { check: 'usable', level: 'danger', message: 'run migrate() first' }],
    })
  })

  test('keeps a danger that it found itself, even if the adapter reports the same check as ok', async () => {
    const failing = `attempt: async () => { throw new LockError('LOCK_UNAVAILABLE', 'read-only') },
      diagnose: async () => [{ check: 'permissions', level: 'ok', message: 'the user may do all that is needed' }]`
    const { code, stdout } = await locks(['doctor', '--config', await ownAdapter(failing)]).ended
    expect(stdout).toMatch(/^✗ permissions: .*read-only$/m)
    expect(stdout).toMatch(/^✓ permissions: the user may do all that is needed$/m)
    expect(code).toBe(1)
  })

  test('does not mistake a slow store for one whose clock is behind', async () => {
    const slow = `renew: async (all) => {
        if (!globalThis.asked) await new Promise((resolve) => setTimeout(resolve, 1_500))
        globalThis.asked = true
        return all.map(() => 'renewed')
      }`
    const { stdout } = await locks(['doctor', '--config', await ownAdapter(slow)]).ended
    expect(stdout).toMatch(/^✓ clock: /m)
  })

  test('interrupted, it reports no false danger', async () => {
    const busy = `attempt: async () => (console.error('asked'), { busy: true })`
    const call = locks(['doctor', '--config', await ownAdapter(busy)])
    await call.said(/asked/)
    call.kill('SIGINT')
    expect(await call.ended).toMatchObject({ code: 130, stdout: '' })
  })
})
