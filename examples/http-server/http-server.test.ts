import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../conformance/selection.ts'
import { startService } from '../../conformance/services/index.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { start, workplace } from '../test-support/program.ts'
import type { Program } from '../test-support/program.ts'

const timeout = scaled(60_000)
const program = join(import.meta.dirname, 'main.mjs')

async function listen(options: Parameters<typeof start>[1]): Promise<{ server: Program; url: string }> {
  const server = start(program, { ...options, env: { PORT: '0', ...options?.env } })
  const [, url = ''] = await server.said(/listening on (\S+)\n/)
  return { server, url }
}

async function pay(url: string, order: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${url}/orders/${order}/payment`, { method: 'POST' })
  return { status: response.status, text: await response.text() }
}

test(
  'an order is paid by one at a time, in whichever process; on SIGTERM what is under way ends',
  { timeout },
  async () => {
    const cwd = await workplace()
    // Long enough for a second client, which gives up after two seconds.
    const slow = await listen({ cwd, env: { PAYMENT_MS: '8000' } })
    const quick = await listen({ cwd, env: { PAYMENT_MS: '10' } })
    const first = pay(slow.url, '42')
    await slow.server.said(/paying under fence/)
    expect(await pay(quick.url, '42')).toEqual({
      status: 409,
      text: 'another request is paying this order\n',
    })
    expect((await pay(quick.url, '43')).status).toBe(200)
    slow.server.kill('SIGTERM')
    expect((await first).status).toBe(200)
    const { exitCode, output } = await slow.server.ended
    expect(output).toContain('closed')
    expect(exitCode).toBe(0)
    // Released, not left to its ttl of 30 s.
    expect((await pay(quick.url, '42')).status).toBe(200)
  },
)

test('what is no order is 404', { timeout }, async () => {
  const { url } = await listen({ cwd: await workplace() })
  expect((await fetch(`${url}/orders/42`)).status).toBe(404)
})

if (isSelected('redis'))
  test('a store that is away is 503, never 409', { timeout }, async () => {
    const service = await startService('redis', { needsControl: true })
    onTestFinished(() => service.close())
    const { url } = await listen({ env: { LOCKS_URL: service.url }, cwd: import.meta.dirname })
    expect((await pay(url, '42')).status).toBe(200)
    await service.server('redis').kill()
    expect(await pay(url, '42')).toEqual({ status: 503, text: 'try again later\n' })
  })
