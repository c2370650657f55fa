import { expect, test } from 'vitest'
import { renderMatrix } from '../../scripts/lib/matrix.mjs'

const found = { backend: 'redis', area: 'crash' }

test('the matrix has what passed, failed, was not tried and does not apply apart, with reasons', () => {
  const page = renderMatrix([
    { ...found, rule: 'CRASH-1', state: 'passed' },
    { ...found, rule: 'CRASH-2', state: 'failed', reason: 'broken' },
    { ...found, rule: 'CRASH-3', state: 'untested', reason: 'left to npm test -- --all', applicable: true },
    { ...found, rule: 'CRASH-4', state: 'untested', reason: 'kind is lease', applicable: false },
  ])
  expect(page).toContain('| backend | [CRASH](spec.md#crash) | all |')
  expect(page).toContain('| `redis` | 1<br>✗ 1<br>? 1<br>n/a 1 | 1<br>✗ 1<br>? 1<br>n/a 1 |')
  const [, notTried = '', notApplicable = ''] = page.split(/^## /m)
  expect(notTried).toContain('- **redis**\n  - left to npm test -- --all: `CRASH-3`')
  expect(notApplicable).toContain('- **redis**\n  - kind is lease: `CRASH-4`')
})

test('a matrix without gaps says so', () => {
  const page = renderMatrix([{ ...found, rule: 'CRASH-1', state: 'passed' }])
  expect(page).toContain('Every rule that applies was tried.')
  expect(page).toContain('Every rule applies to every backend.')
})
