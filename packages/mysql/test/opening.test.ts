import { startFaultProxy } from '@locks/core/conformance'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, open, startServer } from './support/setup.ts'

const server = await startServer({ 'max-connections': 200 })
const names = Array.from({ length: 40 }, (_, n) => `opened:${n}`)

/** As far as they are about too many listeners: other modules of this process have their own. */
function warnings(): readonly Error[] {
  const seen: Error[] = []
  const note = (warning: Error): void =>
    void (warning.name === 'MaxListenersExceededWarning' && seen.push(warning))
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  return seen
}

/** Warnings are emitted one tick after their cause. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test.each(['unique-key', 'row', 'named'])(
  '%s: connections opened at once, and reset while they are, leave no listeners behind',
  async (strategy) => {
    const seen = warnings()
    const proxy = await startFaultProxy({ host: server.host, port: server.port })
    onTestFinished(() => proxy.close())
    const url = `mysql://locks@${proxy.host}:${proxy.port}/locks`
    const locks = open({ url, strategy, poolSize: 30 }, { storeTimeoutMs: scaled(20_000) })
    await locks.with('first', () => undefined)
    proxy.blackhole('replies')
    // The hold of a connection is lost with it.
    const done = Promise.allSettled(names.map((name) => locks.with(name, () => undefined)))
    for (let resets = 0; resets < 3; resets += 1) {
      await new Promise((resolve) => setTimeout(resolve, scaled(200)))
      proxy.reset()
    }
    proxy.pass()
    await done
    await turn()
    expect(seen.map(({ stack }) => stack)).toEqual([])
  },
  scaled(30_000),
)

test('a connection that was reset is not used for another statement', async () => {
  const seen = warnings()
  const proxy = await startFaultProxy({ host: server.host, port: server.port })
  onTestFinished(() => proxy.close())
  const { adapter } = bare({ url: `mysql://locks@${proxy.host}:${proxy.port}/locks`, poolSize: 1 })
  await adapter.inspect('first')
  proxy.blackhole('replies')
  // One is under way, the others wait for its connection.
  const asked = names.map((name) =>
    adapter.inspect(name).then(
      () => 'answered',
      () => 'failed',
    ),
  )
  await turn()
  proxy.pass()
  proxy.reset()
  const answers = await Promise.all(asked)
  expect(answers.filter((answer) => answer === 'failed')).toHaveLength(1)
  await turn()
  expect(seen.map(({ stack }) => stack)).toEqual([])
})
