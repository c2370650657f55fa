import { expect, test } from 'vitest'
import { Harness } from '../../src/conformance/harness.ts'
import { soonFree } from '../../src/conformance/rules/observe.ts'
import { lastingConfig } from '../../src/conformance/subject.ts'
import type { AdapterFactory } from '../../src/index.ts'
import { harness } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'

const config = { adapter: './sessions.js', sessionMs: 3 }
const subject = { name: 'sessions', config, lasting: { sessionMs: 60 } }

test('clients and adapters have sessions that last, unless the rule names a ttl', async () => {
  const opened: string[] = []
  const factory =
    (kind: string): AdapterFactory =>
    (host) => {
      opened.push(kind)
      return new ScriptedStore().factory(host)
    }
  const { capabilities } = harness().locks
  await new Harness(subject, factory('short'), capabilities, factory('lasting')).run(async (h) => {
    await h.client()
    await h.client({ ttlMs: h.ttlMs })
    h.adapter()
    h.adapter({ ttlMs: h.ttlMs })
  })
  expect(opened).toEqual(['lasting', 'short', 'lasting', 'short'])
})

test('what makes sessions last is laid over the config, which must be an object for that', () => {
  expect(lastingConfig(subject, config)).toEqual({ adapter: './sessions.js', sessionMs: 60 })
  expect(lastingConfig({ name: 'plain', config }, config)).toBe(config)
  expect(() => lastingConfig(subject, 'sessions://host')).toThrow('lasting needs a config that is an object')
})

test('a rule that fails says why, and all it made is ended, although ending some of it fails too', async () => {
  const { capabilities } = harness().locks
  const ended: string[] = []
  const listeners = process.listenerCount('unhandledRejection')
  const outcome = new Harness(subject, new ScriptedStore().factory, capabilities).run(async (h) => {
    h.onEnd(async () => ended.push('made first'))
    h.onEnd(() => Promise.reject(new Error('it would not end')))
    throw new Error('the promise is broken')
  })
  await expect(outcome).rejects.toThrow('the promise is broken')
  expect(ended).toEqual(['made first'])
  expect(process.listenerCount('unhandledRejection')).toBe(listeners)
})

test('a rule that passes fails if what it made cannot be ended', async () => {
  const { capabilities } = harness().locks
  const outcome = new Harness(subject, new ScriptedStore().factory, capabilities).run(async (h) => {
    h.onEnd(() => Promise.reject(new Error('it would not end')))
  })
  await expect(outcome).rejects.toThrow('it would not end')
})

test('a name that a withdrawn wait has for a moment is soon free, although inspect never shows it', async () => {
  const store = new ScriptedStore()
  let refusals = 3
  const factory: AdapterFactory = (host) => {
    const adapter = store.factory(host)
    return {
      ...adapter,
      attempt: async (request) => (refusals-- > 0 ? { busy: true } : adapter.attempt(request)),
      inspect: async (name) => ({ name, held: false }),
    }
  }
  await new Harness(subject, factory, harness().locks.capabilities).run((h) => soonFree(h, h.name()))
  expect(refusals).toBe(-1)
})

function run(body: (h: Harness) => Promise<void>): Promise<void> {
  return new Harness(subject, new ScriptedStore().factory, harness().locks.capabilities).run(body)
}

test('what a rule that failed left under way is not held against those beside it', async () => {
  let over = (): void => undefined
  const failed = new Promise<void>((resolve) => (over = resolve))
  const beside = run(() => failed)
  const failing = run(async (h) => {
    const { locks } = await h.client()
    const lock = h.name()
    await locks.lock(lock).acquire()
    // Rejected when its client is closed, and no longer awaited then.
    void locks.lock(lock).acquire()
    throw new Error('the promise is broken')
  })
  await expect(failing).rejects.toThrow('the promise is broken')
  over()
  await beside
})

test('an unhandled rejection fails the rule whose lock it is about, and every rule if it is about none', async () => {
  let over = (): void => undefined
  const failed = new Promise<void>((resolve) => (over = resolve))
  const beside = run(() => failed)
  const failing = run(async (h) => {
    const { locks } = await h.client()
    const lock = h.name()
    await locks.lock(lock).acquire()
    void locks.lock(lock).acquire()
  })
  await expect(failing).rejects.toThrow('unhandled rejections')
  over()
  await beside
  const everybody = [run(async () => void Promise.reject(new Error('whose?'))), run(() => Promise.resolve())]
  for (const one of everybody) await expect(one).rejects.toThrow('unhandled rejections')
})
