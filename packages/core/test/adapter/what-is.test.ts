import { whatIs } from '@locks/core/adapter'
import { expect, test } from 'vitest'

class Secret {
  readonly password = 'hunter2'
}

test.each<readonly [unknown, string]>([
  [undefined, 'undefined'],
  [null, 'null'],
  [7, 'a number'],
  ['redis://user:password@host', 'a string'],
  [() => undefined, 'a function'],
  [Promise.resolve(1), 'a Promise: await it first'],
  [[], 'a list'],
  [{}, 'an object of another kind'],
  [Object.create(null), 'an object of another kind'],
  [new Secret(), 'an object of class Secret'],
])('%s is described by its kind, without its content', (value, text) => {
  expect(whatIs(value)).toBe(text)
})
