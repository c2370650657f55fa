import { expect, test } from 'vitest'
import { Harness } from '../../src/conformance/harness.ts'
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
