import { isLockError } from '@locks/core'
import { expect, test } from 'vitest'
import { postgres } from '../src/index.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()

test('a URL is taken with the parameters that hosting companies give it', async () => {
  const given = 'sslmode=disable&channel_binding=prefer&connect_timeout=15&gssencmode=disable'
  const url = `${server.url}?${given}&target_session_attrs=read-write&strategy=unique-key`
  await open({ url }).with('a', ({ fence }) => expect(fence).toBeTypeOf('bigint'))
})

test('a URL with a parameter that nobody knows is refused, and its password not shown', () => {
  const refused = (): unknown => postgres({ url: 'postgres://me:s3cr3t@127.0.0.1/db?strategie=row' })
  expect(refused).toThrow(/unknown key "strategie" in url; known: strategy, .*; did you mean strategy\?/)
  expect(refused).toThrow(expect.not.stringContaining('s3cr3t'))
  expect(refused).toThrow(expect.toSatisfy((error) => isLockError(error, 'LOCK_INVALID_ARGUMENT')))
})
