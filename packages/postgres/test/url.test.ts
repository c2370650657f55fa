import { isLockError } from '@locks/core'
import { inTime } from '@locks/core/conformance'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { postgres } from '../src/index.ts'
import { bare, open, startServer } from './support/setup.ts'

const server = await startServer()

test('a URL is taken with the parameters that hosting companies give it', async () => {
  const given = 'sslmode=disable&channel_binding=require&connect_timeout=15&gssencmode=disable'
  const url = `${server.url}?${given}&target_session_attrs=read-write&strategy=unique-key`
  await open({ url }).with('a', ({ fence }) => expect(fence).toBeTypeOf('bigint'))
})

test('a URL with a parameter that nobody knows is refused, and its password not shown', () => {
  const refused = (): unknown => postgres({ url: 'postgres://me:s3cr3t@127.0.0.1/db?strategie=row' })
  expect(refused).toThrow(/unknown key "strategie" in url; known: strategy, .*; did you mean strategy\?/)
  expect(refused).toThrow(expect.not.stringContaining('s3cr3t'))
  expect(refused).toThrow(expect.toSatisfy((error) => isLockError(error, 'LOCK_INVALID_ARGUMENT')))
})

test.each([
  ['gssencmode=require', /gssencmode=require in url asks for what is not done.*disable, allow, prefer/],
  ['target_session_attrs=standby', /target_session_attrs=standby in url .*any, read-write, primary/],
  ['target_session_attrs=read-only', /target_session_attrs=read-only in url/],
  ['connect_timeout=0', /connect_timeout in url must be a whole number of seconds from 1 to 3600/],
  ['connect_timeout=soon', /connect_timeout in url must be/],
])('a URL with %s is refused instead of passing over it', (parameter, message) => {
  expect(() => postgres({ url: `postgres://me:s3cr3t@127.0.0.1/db?${parameter}` })).toThrow(message)
})

test.each(['pg', 'postgres'])('%s: connect_timeout bounds how long connecting takes', async (library) => {
  const silent = createServer((client) => void client.on('error', () => undefined)).listen(0, '127.0.0.1')
  onTestFinished(() => void silent.close())
  await once(silent, 'listening')
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const { adapter, request } = bare({
    url: `postgres://me@127.0.0.1:${port}/db?library=${library}&connect_timeout=1`,
  })
  const attempt = adapter.attempt(request('a')).catch((error: unknown) => error)
  const error = await inTime('the time-out', scaled(3_500), attempt)
  expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
})
