import { once } from 'node:events'
import { connect as dial } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import { bare, heldOn, over, proxiesOf, servers, somebody, uniqueName, until } from './support/bed.ts'

test('a copy of the release of an earlier vote that arrives late ends no later vote', async () => {
  const { servers: nodes } = await servers(3)
  const [first, second, third] = nodes
  if (first === undefined || second === undefined || third === undefined) throw new Error('too few nodes')
  const [proxy] = await proxiesOf([second])
  if (proxy === undefined) throw new Error('no proxy')
  const holder = bare(over([first, { host: proxy.host, port: proxy.port }, third]))
  const other = bare(over(nodes))
  // Scripts are loaded, and who the nodes are is known.
  await holder.adapter.release(await holder.take(holder.request(uniqueName())))
  const lock = uniqueName()
  const somebodyElse = somebody(1)
  for (const node of [first, third]) {
    await redisCommand(node, 'HSET', lock, somebodyElse, 1)
    await redisCommand(node, 'PEXPIRE', lock, 600_000)
  }
  let release: Buffer | undefined
  const noted = proxy
    .swallowNextReply({
      matching(request) {
        if (request.includes(lock) && request.toString('latin1').startsWith('*8\r\n'))
          release ??= Buffer.from(request)
        return false
      },
    })
    .catch(() => undefined)
  const request = holder.request(lock, { willWait: true })
  expect(await holder.adapter.attempt(request)).toMatchObject({ busy: true })
  await until(async () => (await heldOn([second], lock)) === 0)
  proxy.pass()
  await noted
  if (release === undefined) throw new Error('no release was seen')
  await redisCommand(first, 'DEL', lock)
  const grant = await holder.take(request)
  expect(await heldOn([first, second], lock)).toBe(2)
  const socket = dial(second.port, second.host)
  onTestFinished(() => void socket.destroy())
  socket.write(release)
  await once(socket, 'data')
  await redisCommand(third, 'DEL', lock)
  expect(await other.adapter.attempt(other.request(lock))).toMatchObject({ busy: true })
  expect(await holder.adapter.renew([{ grant, ttlMs: 20_000, lockDelayMs: 0 }])).toEqual(['renewed'])
})
