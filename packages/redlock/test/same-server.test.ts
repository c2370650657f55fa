import { expect, test } from 'vitest'
import { bare, connect, heldOn, over, proxiesOf, servers, uniqueName, until } from './support/bed.ts'

// One server under two addresses would vote twice: two of three votes would be those of a single server.

test('one server under two names is refused before anything is granted', async () => {
  const { servers: nodes } = await servers(2)
  const [one, other] = nodes
  if (one === undefined || other === undefined) throw new Error('two servers expected')
  const lock = uniqueName()
  const locks = connect({
    nodes: [`redis://127.0.0.1:${one.port}`, `redis://localhost:${one.port}`, other.url],
  })
  const refused = { code: 'LOCK_INVALID_ARGUMENT' }
  await expect(locks.lock(lock).tryAcquire()).rejects.toMatchObject(refused)
  await expect(locks.lock(lock).acquire()).rejects.toThrow(/nodes 1 and 2 are the same server/)
  expect(await heldOn(nodes, lock)).toBe(0)
})

test('so is a URL and an object that lead to the same server', async () => {
  const { servers: nodes } = await servers(2)
  const [one, other] = nodes
  if (one === undefined || other === undefined) throw new Error('two servers expected')
  const connection = { host: one.host, port: one.port }
  const locks = connect({ nodes: [one.url, other.url, { connection }], fencing: false })
  await expect(locks.lock(uniqueName()).tryAcquire()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
})

test('one that leads to the server of another later on loses its vote, and nothing is granted', async () => {
  const { servers: nodes } = await servers(3)
  const proxies = await proxiesOf(nodes)
  const { adapter, request, take } = bare(over(proxies, { nodeTimeoutMs: 20_000 }))
  await adapter.release(await take(request(uniqueName())))
  const [first, second, third] = [nodes[0], proxies[1], proxies[2]]
  if (first === undefined || second === undefined || third === undefined)
    throw new Error('three servers expected')
  // The votes of the other two are needed.
  third.refuse()
  second.retarget({ host: first.host, port: first.port })
  second.reset()
  const lock = uniqueName()
  await expect(adapter.attempt(request(lock))).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await until(async () => (await heldOn(nodes, lock)) === 0)
})

test('renewals by one server under two addresses do not count as those of a majority', async () => {
  const { servers: nodes } = await servers(3)
  const proxies = await proxiesOf(nodes)
  const { adapter, request, take } = bare(over(proxies, { nodeTimeoutMs: 20_000 }))
  const wanted = request(uniqueName())
  const grant = await take(wanted)
  const [first, second, third] = [nodes[0], proxies[1], proxies[2]]
  if (first === undefined || second === undefined || third === undefined)
    throw new Error('three servers expected')
  third.refuse()
  second.retarget({ host: first.host, port: first.port })
  second.reset()
  const { ttlMs, lockDelayMs } = wanted
  expect(await adapter.renew([{ grant, ttlMs, lockDelayMs }])).toEqual(['unknown'])
})

test('a node that was restarted, and so has another run id, votes on', async () => {
  const { servers: nodes } = await servers(3)
  const { adapter, request, take } = bare(over(nodes))
  await adapter.release(await take(request(uniqueName())))
  for (const node of nodes) {
    await node.restart({ hard: true })
    const lock = uniqueName()
    await until(async () => {
      const answer = await adapter.attempt(request(lock)).catch(() => undefined)
      return answer !== undefined && !('busy' in answer)
    })
    await until(async () => (await heldOn(nodes, lock)) === 3)
  }
})
