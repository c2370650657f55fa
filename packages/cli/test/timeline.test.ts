import type { HistoryEvent } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { timeline } from '../src/conformance/timeline.ts'

function hold(process: string, fence: bigint, from: number, until: number): HistoryEvent[] {
  const act = { process, name: 'lock', task: '<task>' }
  return [
    { ...act, type: 'acquire-called', t: from - 1 },
    { ...act, type: 'granted', t: from, fence, deadline: from + 1_000 },
    { ...act, type: 'release-called', t: until, fence },
    { ...act, type: 'released', t: until, fence },
  ]
}

test('successive holds are drawn in the colour of their process, with the waiters', () => {
  const svg = timeline([...hold('a', 1n, 10, 20), ...hold('b', 2n, 20, 30)])
  expect(svg).toContain('2 holds in 21 ms, none overlap')
  expect(svg.match(/<rect class="c\d"/g)).toEqual(['<rect class="c0"', '<rect class="c1"'])
  expect(svg.match(/class="wait"/g)).toHaveLength(2)
  expect(svg).toContain('<title>a/&lt;task&gt;, fence 1, 1.00 to 11.00 ms, ended by release</title>')
})

test('holds that overlap are marked, and only those', () => {
  const svg = timeline([...hold('a', 1n, 10, 20), ...hold('b', 2n, 15, 30), ...hold('a', 3n, 31, 32)])
  expect(svg).toContain('3 holds in 23 ms, 2 overlap')
  expect(svg.match(/<rect class="[^"]*"/g)).toEqual([
    '<rect class="clash"',
    '<rect class="c0"',
    '<rect class="clash"',
  ])
})
