import { inTime } from '@locks/core/conformance'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { listenersOf } from '../../../conformance/test-support/listeners.ts'
import type { Link, SubscriberEvents } from '../src/drivers/driver.ts'
import type { ConnectionOptions } from '../src/drivers/given.ts'
import type { Library } from '../src/drivers/ioredis-clients.ts'
import { open, wrap } from '../src/drivers/ioredis.ts'
import { hungServer, proxied, uniqueName, until } from './support/bed.ts'

// What `src/drivers/driver.ts` promises, with every supported version of a client library.

const service = await startService('redis', { settings: { user: 'mute on >s3cret ~* +@all resetchannels' } })
const cluster = await startService('redis-cluster')
afterAll(() => Promise.all([service.close(), cluster.close()]))
const server = service.server('redis')
const { host, port } = server

function isLibrary(value: unknown): value is Library {
  return typeof value === 'object' && value !== null && 'Redis' in value && 'Cluster' in value
}

const ignored: SubscriberEvents = { message: () => undefined, lost: () => undefined, moved: () => undefined }

const versions: (readonly [string, Library])[] = []
for (const name of ['ioredis', 'ioredis-5', 'ioredis-5.3']) {
  const library: unknown = await import(name)
  if (!isLibrary(library)) throw new Error(`${name} is no ioredis`)
  versions.push([name, library])
}

describe.each(versions)('%s', (_, library) => {
  function own(connection: ConnectionOptions, silenceMs = 60_000): Link {
    const link = open({ connection }, { silenceMs }, library)
    onTestFinished(() => link.close())
    return link
  }

  const reasonOf = (link: Link, sent: Promise<unknown>) =>
    sent.then(
      (reply) => ({ code: `a reply: ${String(reply)}`, message: '', ended: false }),
      (error: unknown) => link.failureOf(error),
    )

  test('commands from before there is a connection leave in their order, and replies are those of RESP 2', async () => {
    const link = own({ host, port })
    const key = uniqueName()
    const sent = [
      link.send('rpush', [key, 'a', 2], key),
      link.send('lrange', [key, 0, -1], key),
      link.send('get', [uniqueName()], undefined),
      link.send('config', ['get', 'appendonly'], undefined),
      link.send('eval', ["return {1, {'x', 2}, false}", 0], undefined),
    ]
    expect(await Promise.all(sent)).toEqual([2, ['a', '2'], null, ['appendonly', 'no'], [1, ['x', 2], null]])
  })

  test('after a lost reply the command settles, and the break is reported first', async () => {
    const proxy = await proxied(server)
    const link = own({ host: proxy.host, port: proxy.port })
    const key = uniqueName()
    let breaks = 0
    onTestFinished(link.onBreak(() => (breaks += 1)))
    await link.send('ping', [], undefined)
    const swallowed = proxy.swallowNextReply()
    const settled = reasonOf(link, link.send('incr', [key], key))
    await swallowed
    await inTime('the command settles', { ms: 5_000 }, settled)
    expect(breaks).toBeGreaterThan(0)
    expect(Number(await redisCommand(server, 'GET', key))).toBeLessThanOrEqual(2)
  })

  test('commands that are sent during a handshake settle, if its connection ends too', async () => {
    const proxy = await proxied(server)
    const link = own({ host: proxy.host, port: proxy.port })
    proxy.blackhole('replies')
    const sent = [reasonOf(link, link.send('ping', [], undefined))]
    await until(() => proxy.stats.bytesToServer > 0)
    for (const name of ['info', 'time', 'dbsize']) sent.push(reasonOf(link, link.send(name, [], undefined)))
    proxy.reset()
    for (const { code } of await inTime('they settle', { ms: 5_000 }, Promise.all(sent)))
      expect(code).toContain('a reply')
  })

  test('without a ready check, a link recovers from connections that ended in their handshake', async () => {
    const proxy = await proxied(server)
    const link = own({ host: proxy.host, port: proxy.port, enableReadyCheck: false, connectionName: 'locks' })
    const { connections } = proxy.stats
    proxy.refuse('first-bytes')
    const sent = reasonOf(link, link.send('ping', [], undefined))
    await until(() => proxy.stats.connections >= connections + 5)
    proxy.pass()
    await inTime('the command settles', { ms: 5_000 }, sent)
    const { code } = await inTime(
      'so does the next',
      { ms: 5_000 },
      reasonOf(link, link.send('ping', [], undefined)),
    )
    expect(code).toBe('a reply: PONG')
  })

  test('a connection that is silent is replaced', async () => {
    const proxy = await proxied(server)
    const link = own({ host: proxy.host, port: proxy.port }, 200)
    await link.send('ping', [], undefined)
    const { connections } = proxy.stats
    proxy.blackhole()
    const sent = reasonOf(link, link.send('ping', [], undefined))
    await until(() => proxy.stats.connections > connections)
    proxy.pass()
    await inTime('the command settles', { ms: 10_000 }, sent)
    await until(async () => (await reasonOf(link, link.send('ping', [], undefined))).code === 'a reply: PONG')
  })

  test('closed while it connects, or while a command waits for its reply, every command settles', async () => {
    const [hung, proxy] = [await hungServer(), await proxied(server)]
    const links = [own({ host: hung.host, port: hung.port }), own({ host: proxy.host, port: proxy.port })]
    await links[1]?.send('ping', [], undefined)
    proxy.blackhole()
    const sent = links.map((link) => reasonOf(link, link.send('ping', [], undefined)))
    for (const link of links) link.close()
    for (const { code } of await inTime('they settle', { ms: 5_000 }, Promise.all(sent)))
      expect(code).not.toContain('a reply')
  })

  test.each([{}, { enableReadyCheck: false }, { enableReadyCheck: false, disableClientInfo: true }])(
    'a database that the server refuses is never replaced by database 0, and the reason is reported (%j)',
    async (options) => {
      const link = own({ host, port, db: 99, ...options })
      for (let n = 0; n < 3; n += 1) {
        const key = uniqueName()
        const sent = reasonOf(link, link.send('set', [key, 1], undefined))
        const reason = await inTime('it is refused', { ms: 5_000 }, sent)
        expect(reason).toMatchObject({ code: 'ERR', refusesDatabase: true })
        expect(Number(await redisCommand(server, 'EXISTS', key))).toBe(0)
      }
      expect(link.db).toBe(99)
    },
  )

  test('a client that the program sent SELECT uses no other database after a lost connection', async () => {
    const proxy = await proxied(server)
    const client = new library.Redis({ host: proxy.host, port: proxy.port, db: 5 })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    await client.select(7)
    const [link, key] = [wrap(client), uniqueName()]
    const { connections, bytesToServer } = proxy.stats
    proxy.blackhole('replies')
    client.stream.destroy()
    await until(() => proxy.stats.connections > connections && proxy.stats.bytesToServer > bytesToServer)
    expect(link.db).toBe(7)
    const sent = reasonOf(link, link.send('set', [key, 'early'], key))
    proxy.reset()
    expect((await inTime('it settles', { ms: 5_000 }, sent)).code).not.toContain('a reply')
    await until(
      async () => (await reasonOf(link, link.send('set', [key, 'late'], key))).code === 'a reply: OK',
    )
    const copy = link.copy({ silenceMs: 60_000 })
    onTestFinished(() => copy.close())
    expect(await copy.send('get', [key], key)).toBe('late')
    const first = own({ host, port, db: 5 })
    expect(await first.send('get', [key], key)).toBeNull()
  })

  test('only a client that the program ended is ended', async () => {
    const client = new library.Redis({ host, port })
    const [link, copy] = [wrap(client), wrap(client).copy({ silenceMs: 60_000 })]
    onTestFinished(() => copy.close())
    expect(await reasonOf(link, link.send('get', [], undefined))).toMatchObject({ code: 'ERR', ended: false })
    await client.quit()
    expect(await reasonOf(link, link.send('ping', [], undefined))).toMatchObject({ ended: true })
    copy.close()
    expect(await reasonOf(copy, copy.send('ping', [], undefined))).toMatchObject({ ended: false })
    const givingUp = new library.Redis({ host, port: 1, retryStrategy: () => null })
    givingUp.on('error', () => undefined)
    await until(() => givingUp.status === 'end')
    const gaveUp = wrap(givingUp)
    expect(await reasonOf(gaveUp, gaveUp.send('ping', [], undefined))).toMatchObject({ ended: false })
  })

  test('what one node of a Cluster said is told from what all of them say', async () => {
    const client = new library.Cluster([{ host, port: 1 }], { lazyConnect: true })
    onTestFinished(() => client.disconnect())
    const last = Object.assign(new Error('refused'), { code: 'CERT_HAS_EXPIRED' })
    const error = Object.assign(new Error('Failed to refresh slots cache.'), { lastNodeError: last })
    expect(wrap(client).failureOf(error)).toMatchObject({ code: 'CERT_HAS_EXPIRED', ofOneNode: true })
    expect(wrap(client).failureOf(last)).toMatchObject({ code: 'CERT_HAS_EXPIRED', ofOneNode: false })
  })

  test('failures have the code of the server, and no password', async () => {
    const [link, refused] = [own({ host, port }), own({ host, port, username: 'mute', password: 'wr0ng' })]
    const key = uniqueName()
    await link.send('set', [key, 'text'], key)
    const codes = [
      await reasonOf(link, link.send('evalsha', ['0'.repeat(40), 0], undefined)),
      await reasonOf(link, link.send('hget', [key, 'field'], key)),
      await reasonOf(refused, refused.send('ping', [], undefined)),
    ]
    expect(codes.map(({ code }) => code)).toEqual(['NOSCRIPT', 'WRONGTYPE', 'WRONGPASS'])
    expect(JSON.stringify(codes)).not.toContain('wr0ng')
  })

  test('a subscriber reports a lost connection before it listens again, and a refusal', async () => {
    const proxy = await proxied(server)
    const link = own({ host: proxy.host, port: proxy.port })
    const mute = own({ host, port, username: 'mute', password: 's3cret' })
    const heard: string[] = []
    const events: SubscriberEvents = {
      message: (channel, text) => heard.push(`${channel} ${text}`),
      lost: () => heard.push('lost'),
      moved: () => heard.push('moved'),
    }
    const channel = uniqueName('channel')
    const [place, mutes] = [link.placeOf(channel), mute.placeOf(channel)]
    if (place === undefined || mutes === undefined) throw new Error('one server has every channel')
    const [subscriber, refused] = [
      link.subscriber(place, false, events),
      mute.subscriber(mutes, false, events),
    ]
    onTestFinished(() => subscriber.close())
    onTestFinished(() => refused.close())
    expect(await refused.subscribe(channel)).toBe(false)
    expect(await subscriber.subscribe(channel)).toBe(true)
    await redisCommand(server, 'PUBLISH', channel, 'one')
    await until(() => heard.length === 1)
    proxy.reset()
    await until(() => heard.includes('lost'))
    expect(await subscriber.subscribe(channel)).toBe(true)
    await redisCommand(server, 'PUBLISH', channel, 'two')
    await until(() => heard.length > 2)
    expect(heard).toEqual([`${channel} one`, 'lost', `${channel} two`])
  })

  test('a subscription settles after a lost reply, also where the client of the program repeats no command', async () => {
    const proxy = await proxied(server)
    const { host: at, port: through } = proxy
    const client = new library.Redis({ host: at, port: through, autoResendUnfulfilledCommands: false })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    const link = wrap(client)
    const subscriber = link.subscriber(
      link.placeOf('') ?? expect.fail('it has every channel'),
      false,
      ignored,
    )
    onTestFinished(() => subscriber.close())
    await subscriber.subscribe(uniqueName('channel'))
    const swallowed = proxy.swallowNextReply()
    const subscribed = subscriber.subscribe(uniqueName('channel'))
    await swallowed
    expect(await inTime('it settles', { ms: 5_000 }, subscribed)).toBe(true)
  })

  test('many subscriptions during a handshake cause no warning of a leak', async () => {
    const warnings: string[] = []
    const warned = ({ name }: Error): unknown => warnings.push(name)
    process.on('warning', warned)
    onTestFinished(() => void process.off('warning', warned))
    const proxy = await proxied(server)
    const link = own({ host: proxy.host, port: proxy.port })
    const subscriber = link.subscriber(
      link.placeOf('') ?? expect.fail('it has every channel'),
      false,
      ignored,
    )
    onTestFinished(() => subscriber.close())
    proxy.blackhole('replies')
    const first = subscriber.subscribe(uniqueName('channel'))
    await until(() => proxy.stats.bytesToServer > 0)
    const more = Array.from({ length: 20 }, () => subscriber.subscribe(uniqueName('channel')))
    proxy.reset()
    const all = await inTime('they settle', { ms: 5_000 }, Promise.all([first, ...more]))
    expect(all).not.toContain(false)
    expect(warnings).not.toContain('MaxListenersExceededWarning')
  })

  test('a subscription that a node of a Cluster sends elsewhere resolves with false', async () => {
    const channel = uniqueName('channel')
    const outcomes = cluster.servers.map((node) => {
      const link = own({ host: node.host, port: node.port })
      const place = link.placeOf(channel) ?? expect.fail('one server has every channel')
      const subscriber = link.subscriber(place, true, ignored)
      onTestFinished(() => subscriber.close())
      return subscriber.subscribe(channel)
    })
    const settled = await inTime('they settle', { ms: 10_000 }, Promise.all(outcomes))
    expect(settled.filter(Boolean)).toHaveLength(1)
  })

  test('a client of the program is used as it is, whichever copy it is of, and is left as it was', async () => {
    const client = new library.Redis({ host, port, db: 3, keyPrefix: 'app:', stringNumbers: true })
    onTestFinished(() => client.disconnect())
    await client.ping()
    const before = { options: { ...client.options }, listeners: listenersOf(client) }
    const link = wrap(client)
    const stop = link.onBreak(() => undefined)
    const key = uniqueName()
    const pair = [
      ['set', [key, 1]],
      ['get', [key]],
    ] as const
    expect(await link.together(pair, key)).toMatchObject([{ value: 'OK' }, { value: '1' }])
    expect([link.db, link.keyPrefix]).toEqual([3, 'app:'])
    expect(link.prefixed('MSET', ['a', '1', 'b', '2'])).toEqual({
      args: ['app:a', '1', 'app:b', '2'],
      keys: ['app:a', 'app:b'],
    })
    const copy = link.copy({ silenceMs: 60_000 })
    expect(await copy.send('get', [key], key)).toBe('1')
    copy.close()
    stop()
    link.close()
    expect({ options: { ...client.options }, listeners: listenersOf(client) }).toEqual(before)
    expect(await client.ping()).toBe('PONG')
  })
})
