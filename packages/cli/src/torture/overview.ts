import { replayHistory } from '@locks/core/conformance'
import type { HistoryEvent } from '@locks/core/conformance'
import { escapeHtml } from '../conformance/escape-html.ts'
import { isWireFault } from './faults.ts'
import { slotOf } from './verdict.ts'

const WIDTH = 960
const LABEL = 60
const RIGHT = 30
const LANE = 40
const TOP = 26

/** A run as an SVG: for each worker its holds, its faults and its losses. */
export function overview(events: readonly HistoryEvent[]): string {
  const begin = events[0]?.t ?? 0
  const end = Math.max(events.at(-1)?.t ?? 0, begin + 1)
  const x = (t: number): number =>
    LABEL + ((Math.min(Math.max(t, begin), end) - begin) / (end - begin)) * (WIDTH - LABEL - RIGHT)
  const { names, faults } = replayHistory(events)
  const holds = [...names.values()].flatMap((name) => name.holds)
  const workers = [...new Set(holds.map(({ granted }) => slotOf(granted.process)))].toSorted()
  const lanes = [...workers, 'server']
  const bottom = TOP + lanes.length * LANE
  const refused = events.filter(({ type }) => type === 'resource-rejected')
  const holderOf = new Map(
    holds.map(({ granted }) => [`${granted.name} ${granted.fence}`, slotOf(granted.process)]),
  )

  const lane = (who: string, n: number): string => {
    const y = TOP + n * LANE
    const own = holds.filter(({ granted }) => slotOf(granted.process) === who)
    const held = spansOf(own.map(({ from, until }) => [x(from), x(until)])).map(([from, until]) =>
      rect('c0', from, until, y + 4, 14, ''),
    )
    const hurt = faults
      .filter(({ begin: { label } }) => label.split(' ')[1] === who)
      .map(({ begin: { label, t }, until }) => {
        const [kind = ''] = label.split(' ')
        const style = who === 'server' ? 'on-server' : isWireFault(kind) ? 'on-wire' : 'on-process'
        const lasted = Math.min(until, end) - t
        return rect(
          style,
          x(t),
          x(until),
          y + 22,
          10,
          `${kind}, ${lasted.toFixed(0)} ms at ${seconds(t - begin)}`,
        )
      })
    const marks = events.flatMap((event) => {
      if (event.type === 'crash' && slotOf(event.victim) === who)
        return [mark('killed', '✕', x(event.t), y + 32, `killed at ${seconds(event.t - begin)}`)]
      if (event.type === 'lost' && slotOf(event.process) === who)
        return [mark('lost', '▾', x(event.t), y + 14, `lost ${event.name} at ${seconds(event.t - begin)}`)]
      return []
    })
    const stale = refused.flatMap((event) =>
      event.type === 'resource-rejected' && holderOf.get(`${event.name} ${event.fence}`) === who
        ? [mark('stale', '⊘', x(event.t), y + 14, `stale write refused: ${event.name}, fence ${event.fence}`)]
        : [],
    )
    const label = `<text class="lane" x="0" y="${y + 16}">${escapeHtml(who)}</text>`
    return [label, ...held, ...hurt, ...marks, ...stale].join('')
  }

  const ticks = Array.from({ length: 7 }, (_, n) => begin + ((end - begin) * n) / 6).map((t) => {
    const at = x(t).toFixed(1)
    const line = `<path class="tick" d="M${at} ${TOP - 6}V${bottom}"/>`
    return `${line}<text class="scale" x="${at}" y="14">${seconds(t - begin)}</text>`
  })
  const label = `${workers.length} workers, ${holds.length} holds, ${faults.length} faults in ${seconds(end - begin)}`
  const box = `viewBox="0 0 ${WIDTH} ${bottom + 8}" role="img" aria-label="${label}"`
  return `<svg ${box}>${ticks.join('')}${lanes.map(lane).join('')}</svg>`
}

/** Merges spans that would touch on the page. */
function spansOf(spans: readonly (readonly [number, number])[]): readonly (readonly [number, number])[] {
  const merged: [number, number][] = []
  for (const [from, until] of spans.toSorted(([a], [b]) => a - b)) {
    const last = merged.at(-1)
    if (last !== undefined && from <= last[1] + 0.4) last[1] = Math.max(last[1], until)
    else merged.push([from, until])
  }
  return merged
}

function rect(style: string, from: number, until: number, y: number, height: number, title: string): string {
  const width = Math.max(until - from, 0.7).toFixed(1)
  const tip = title === '' ? '' : `<title>${escapeHtml(title)}</title>`
  return `<rect class="${style}" x="${from.toFixed(1)}" y="${y}" width="${width}" height="${height}">${tip}</rect>`
}

function mark(style: string, sign: string, x: number, y: number, title: string): string {
  return `<text class="mark ${style}" x="${x.toFixed(1)}" y="${y}">${sign}<title>${escapeHtml(title)}</title></text>`
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
