import { describe, expect, test } from 'vitest'
import { count, rulesOf, type Outcome } from './outcome.ts'
import { renderCell, renderFailures, renderReport } from './table.ts'
import { renderTimes } from './times.ts'

function outcome(backend: string, rule: string, state: Outcome['state'], reason?: string): Outcome {
  const [area = ''] = rule.split('-')
  return {
    state,
    name: `title of ${rule}`,
    rule: { backend, area, rule },
    ...(reason === undefined ? {} : { reason }),
  }
}

describe('a cell', () => {
  test('writes what passed, failed and was left untested, and no zeros', () => {
    const passed = outcome('redis', 'OWN-1', 'passed')
    const failed = outcome('redis', 'OWN-2', 'failed')
    const untested = outcome('redis', 'OWN-3', 'untested', 'why')
    expect(renderCell([passed, passed])).toBe('2')
    expect(renderCell([passed, failed])).toBe('1 ✗1')
    expect(renderCell([passed, untested])).toBe('1 –1')
    expect(renderCell([passed, failed, untested])).toBe('1 ✗1 –1')
    expect(renderCell([untested, untested])).toBe('–2')
    expect(renderCell([])).toBe('·')
  })
})

describe('the report', () => {
  test('is a grid of backends by areas, then untested rules by reason', () => {
    const report = renderReport([
      outcome('redis', 'OWN-1', 'passed'),
      outcome('redis', 'OWN-2', 'failed'),
      outcome('redis', 'CRASH-1', 'passed'),
      outcome('memory', 'OWN-1', 'passed'),
      outcome('memory', 'CRASH-1', 'untested', 'scope is process'),
      outcome('memory', 'CRASH-2', 'untested', 'scope is process'),
      outcome('memory', 'TIME-1', 'untested', 'no server clock'),
      { state: 'passed', name: 'a unit test' },
      { state: 'failed', name: 'unhandled error', reason: 'boom\n  at somewhere' },
    ])
    expect(report).toBe(
      [
        '        OWN   CRASH  TIME  all',
        'memory  1     –2     –1    1 –3',
        'redis   1 ✗1  1      ·     2 ✗1',
        '',
        'n passed · ✗n failed · –n untested, reasons below',
        '',
        'Tests of the packages themselves: 1 ✗1',
        '',
        'Untested',
        '  memory: 2 untested: scope is process (CRASH-1, CRASH-2)',
        '  memory: 1 untested: no server clock (TIME-1)',
      ].join('\n'),
    )
  })

  test('names each failure with its reason and where the evidence is', () => {
    const long = Array.from({ length: 30 }, (_, n) => `line ${n}`)
    const [failures] = renderFailures([
      outcome('redis', 'OWN-1', 'passed'),
      { ...outcome('redis', 'OWN-2', 'failed', 'late'), evidence: '/tmp/OWN-2.txt' },
      { state: 'failed', name: 'unhandled error', reason: long.join('\n') },
    ])
    expect(failures?.split('\n')).toEqual([
      'Failed',
      '  ✗ redis OWN-2: title of OWN-2',
      '    late',
      '    /tmp/OWN-2.txt',
      '  ✗ unhandled error',
      ...long.slice(0, 8).map((line) => `    ${line}`),
    ])
    expect(renderFailures([outcome('redis', 'OWN-1', 'passed')])).toEqual([])
  })

  test('lists void runs', () => {
    const voids = ['void: granted: after 3 ms; the bound is 2 ms; meanwhile child 7 stood still for 2 ms']
    const report = renderReport([
      { ...outcome('redis', 'OWN-1', 'passed'), voids },
      { name: 'a unit test', state: 'passed', voids },
    ])
    expect(report).toContain('Void runs, repeated: 2\n  redis OWN-1: granted: after 3 ms')
    expect(report).toContain('  a unit test: granted: after 3 ms')
  })

  test('names every untested rule, over several lines where needed', () => {
    const rules = Array.from({ length: 40 }, (_, index) => `CRASH-${index + 1}`)
    const report = renderReport(rules.map((rule) => outcome('memory', rule, 'untested', 'scope is process')))
    for (const rule of rules) expect(report).toMatch(new RegExp(`\\b${rule}\\b`))
    for (const line of report.split('\n')) expect(line.length).toBeLessThanOrEqual(104)
  })

  test('is empty when nothing ran', () => {
    expect(renderReport([])).toBe('')
  })
})

test('the times are of projects, and of the slowest rules', () => {
  const rules = Array.from({ length: 12 }, (_, n) => ({
    ...outcome('redis', `OWN-${n}`, 'passed'),
    project: 'redis',
    durationMs: n * 1_000,
  }))
  const [projects, slowest] = renderTimes([
    ...rules,
    { name: 'unit', state: 'passed', project: 'core', durationMs: 500 },
  ])
  expect(projects).toContain('redis 66.0 · core 0.5')
  expect(slowest).toMatch(/redis OWN-11 11\.0 · .* · redis OWN-2 2\.0$/)
  expect(renderTimes([])).toEqual([])
})

test('the counts tell passed, failed and untested apart', () => {
  expect(
    count([
      outcome('redis', 'OWN-1', 'passed'),
      outcome('redis', 'OWN-2', 'failed'),
      outcome('redis', 'OWN-3', 'untested', 'why'),
      { state: 'passed', name: 'a unit test' },
    ]),
  ).toEqual({ passed: 2, failed: 1, untested: 1 })
})

test('what became of a rule says whether it applies', () => {
  const rule = { backend: 'redis', area: 'OWN', rule: 'OWN-1', untested: 'why', applicable: false }
  expect(rulesOf([{ state: 'untested', name: 'OWN-1', reason: 'why', rule }])).toEqual([
    { backend: 'redis', area: 'OWN', rule: 'OWN-1', state: 'untested', reason: 'why', applicable: false },
  ])
})

test('what became of each rule leaves out tests that belong to none', () => {
  expect(
    rulesOf([
      outcome('redis', 'OWN-1', 'passed'),
      outcome('memory', 'CRASH-1', 'untested', 'scope is process'),
      { state: 'failed', name: 'a unit test' },
    ]),
  ).toEqual([
    { backend: 'redis', area: 'OWN', rule: 'OWN-1', state: 'passed' },
    { backend: 'memory', area: 'CRASH', rule: 'CRASH-1', state: 'untested', reason: 'scope is process' },
  ])
})
