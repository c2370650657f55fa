import type { HistoryEvent } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { overview } from '../src/torture/overview.ts'

const act = (t: number, process: string) => ({ t, process, name: 'n', task: 't1' })
const fault = (t: number, label: string, phase: 'begin' | 'end') =>
  ({ t, process: 'nemesis', type: 'fault', label, class: 'E', phase }) as const

/** 10 seconds. What stands beside a worker is about that one. */
const events: readonly HistoryEvent[] = [
  { ...act(0, 'w1.1'), type: 'acquire-called' },
  fault(500, 'pause w1', 'begin'),
  { ...act(1_000, 'w1.1'), type: 'granted', fence: 1n, deadline: 1_000 },
  { ...act(2_000, 'w1.1'), type: 'renewed', fence: 1n, deadline: 2_000 },
  fault(2_500, 'pause w1', 'end'),
  { ...act(3_000, 'w1.1'), type: 'lost', fence: 1n },
  { ...act(3_500, 'w2.1'), type: 'acquire-called' },
  { ...act(4_000, 'w2.1'), type: 'granted', fence: 2n, deadline: 4_000 },
  fault(4_500, 'cut w2', 'begin'),
  { t: 5_000, process: 'resource', type: 'resource-rejected', name: 'n', fence: 1n },
  { ...act(6_000, 'w2.1'), type: 'renewed', fence: 2n, deadline: 6_000 },
  fault(6_500, 'cut w2', 'end'),
  fault(7_000, 'server-kill server', 'begin'),
  { t: 8_000, process: 'nemesis', type: 'crash', victim: 'w2.1' },
  fault(8_500, 'server-kill server', 'end'),
  { ...act(9_000, 'w2.2'), type: 'acquire-called' },
  { ...act(9_500, 'w2.2'), type: 'granted', fence: 3n, deadline: 9_500 },
  { ...act(10_000, 'w2.2'), type: 'renewed', fence: 3n, deadline: 10_000 },
]

/** Where a time is drawn, in whole pixels: 10 s from 60 to 930. */
const at = (ms: number): number => Math.round(60 + (ms / 10_000) * 870)

interface Drawn {
  readonly style: string
  readonly from: number
  readonly until: number
  readonly title: string
}

/** What is drawn on each line, by the label it begins with. */
function linesOf(svg: string): ReadonlyMap<string, readonly Drawn[]> {
  const lines = svg.split('<text class="lane" ').slice(1)
  return new Map(
    lines.map((line) => {
      const [, who = ''] = />([^<]*)<\/text>/.exec(line) ?? []
      const rects = [
        ...line.matchAll(/<rect class="([\w-]+)" x="([\d.]+)" y="\d+" width="([\d.]+)"[^>]*>(.*?)<\/rect>/g),
      ]
      const marks = [...line.matchAll(/<text class="mark (\w+)" x="([\d.]+)" y="\d+">.(.*?)<\/text>/g)]
      const title = (text = ''): string => text.replace(/<\/?title>/g, '')
      return [
        who,
        [
          ...rects.map(([, style = '', x, width, tip]) => ({
            style,
            from: Math.round(Number(x)),
            until: Math.round(Number(x) + Number(width)),
            title: title(tip),
          })),
          ...marks.map(([, style = '', x, tip]) => ({
            style,
            from: Math.round(Number(x)),
            until: Math.round(Number(x)),
            title: title(tip),
          })),
        ],
      ]
    }),
  )
}

const drawn = (style: string, fromMs: number, untilMs: number, title = ''): Drawn => ({
  style,
  from: at(fromMs),
  until: at(untilMs),
  title,
})

test('each worker has a line with its holds, faults, losses and refused writes, and the servers have one', () => {
  const lines = linesOf(overview(events))
  expect([...lines.keys()]).toEqual(['w1', 'w2', 'server'])
  expect(lines.get('w1')).toEqual([
    drawn('c0', 1_000, 2_000),
    drawn('on-process', 500, 2_500, 'pause, 2000 ms at 0.5 s'),
    drawn('lost', 3_000, 3_000, 'lost n at 3.0 s'),
    // Refused while the next worker held: the mark stands at the one that wrote.
    drawn('stale', 5_000, 5_000, 'stale write refused: n, fence 1'),
  ])
  expect(lines.get('w2')).toEqual([
    drawn('c0', 4_000, 6_000),
    drawn('c0', 9_500, 10_000),
    drawn('on-wire', 4_500, 6_500, 'cut, 2000 ms at 4.5 s'),
    drawn('killed', 8_000, 8_000, 'killed at 8.0 s'),
  ])
  expect(lines.get('server')).toEqual([drawn('on-server', 7_000, 8_500, 'server-kill, 1500 ms at 7.0 s')])
})

test('the text for screen readers counts workers, holds and faults', () => {
  expect(overview(events)).toContain('aria-label="2 workers, 3 holds, 3 faults in 10.0 s"')
})

test('names that a user chose are shown as text', () => {
  const hostile = events.map((event) => ('name' in event ? { ...event, name: '<b>&"' } : event))
  const svg = overview(hostile)
  expect(svg).not.toContain('<b>')
  expect(svg).toContain('lost &lt;b&gt;&amp;')
})
