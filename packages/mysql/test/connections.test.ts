import { createConnection } from 'mysql2/promise'
import { Socket } from 'node:net'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { muteServerTest } from '../../sql/test/support/mute-server-test.ts'
import { sessionConnectionTests } from '../../sql/test/support/session-connection-tests.ts'
import { bare, cell, open, startServer } from './support/setup.ts'

const server = await startServer()
const control = await createConnection(server.url)
afterAll(() => control.end())
const others = 'SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID()'

for (const strategy of ['row', 'named']) {
  const config = { url: server.url, strategy }
  sessionConnectionTests(strategy, {
    open: (bounds, options) => open({ ...config, ...bounds }, options),
    bare: (bounds) => bare({ ...config, ...bounds }),
    count: async () => Number(await cell(control, others)),
  })
}

test('a silent connection is probed within ten seconds', async () => {
  const keepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
  onTestFinished(() => keepAlive.mockRestore())
  await open({ url: server.url }).with('silent', () => undefined)
  // More than one, if the first was too slow.
  expect(new Set(keepAlive.mock.calls.map(String))).toEqual(new Set(['true,10000']))
})

for (const strategy of ['unique-key', 'row'])
  muteServerTest({
    cwd: import.meta.dirname,
    adapter: '@locks/mysql',
    strategy,
    urlOf: (port) => `mysql://locks@127.0.0.1:${port}/locks`,
  })
