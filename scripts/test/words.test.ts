import { expect, test } from 'vitest'
import { findingsIn, habits } from '../words.mjs'

test('a finding names the file, the line, the phrase and a better one', () => {
  const text = 'The lock is free.\nIt goes to whoever waits.\n'
  expect(findingsIn('docs/guide.md', text)).toEqual([
    { file: 'docs/guide.md', line: 2, found: 'whoever', better: 'the holder, the waiter, the caller' },
  ])
})

test.each([
  ['/** 30 s unless told. */', 'unless told'],
  ['  /** Answers whether it is held. */', '/** Answers'],
  ["test('trap 7: a connection is killed', () => {", 'trap 7'],
  ["report('I10', 'released twice')", 'I10'],
  ['it waits for ever', 'for ever'],
  ['// in earnest, two processes', 'in earnest'],
  ['and locks can be had again', 'can be had'],
  ['the fence tells', 'fence tells'],
  ['the notices of the nodes', 'notices'],
  ['an idle name is vacated', 'vacated'],
])('%s is found', (text, found) => {
  expect(findingsIn('conformance/some.ts', text).map((one) => one.found)).toEqual([found])
})

test.each([
  'Returns whether it is held.',
  'each call answers in order',
  'the strategy named I/O',
  'forever',
  'there is no adapter for it',
])('%s passes', (text) => {
  expect(findingsIn('docs/guide.md', text)).toEqual([])
})

test('a phrase can be limited to some files', () => {
  expect(findingsIn('docs/guide.md', 'somebody')).toHaveLength(1)
  expect(findingsIn('packages/cli/test/run.test.ts', "label: 'somebody'")).toEqual([])
  for (const file of ['packages/cli/README.md', 'packages/cli/src/run.ts', 'docs/decisions/0001-some.md'])
    expect(findingsIn(file, 'the waiter is told').map(({ found }) => found)).toEqual(['told'])
  expect(findingsIn('packages/cli/test/run.test.ts', 'const told = await reply')).toEqual([])
})

test('a source line has at most 120 characters, comments included', () => {
  const long = `// ${'x'.repeat(118)}`
  expect(findingsIn('packages/cli/src/main.ts', long)).toMatchObject([{ found: '121 characters' }])
  expect(findingsIn('packages/cli/src/main.ts', long.slice(1))).toEqual([])
  expect(findingsIn('packages/cli/test/run.test.ts', long)).toEqual([])
})

test('every habit has a better phrase', () => {
  expect(habits.filter(({ better }) => better === '')).toEqual([])
})
