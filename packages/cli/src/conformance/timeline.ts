import { replayHistory } from '@locks/core/conformance'
import type { HistoryEvent, Hold, NameHistory, Wait } from '@locks/core/conformance'
import { escapeHtml } from './escape-html.ts'

const WIDTH = 960
const LABEL = 150
const RIGHT = 36
const LANE = 22
const TOP = 26
const MOST_LANES = 12
const COLOURS = 6

/** Holds and waits of one lane. */
interface Lane {
  readonly label: string
  readonly holds: Hold[]
  readonly waits: Wait[]
}

/**
 * The recorded holds of a contended case as an SVG: time to the right, a bar per hold in the colour of its process.
 * Overlapping bars of one lock are marked.
 */
export function timeline(events: readonly HistoryEvent[]): string {
  const times = events.map(({ t }) => t)
  const [begin, end] = [Math.min(...times), Math.max(...times)]
  const histories = [...replayHistory(events).names.values()]
  const lanes = lanesOf(histories)
  const clashing = clashes(histories)
  const colours = new Map(
    [...new Set(events.map(({ process }) => process))].map((process, n) => [process, n % COLOURS]),
  )
  const x = (t: number): number =>
    LABEL +
    ((Math.min(Math.max(t, begin), end) - begin) / Math.max(end - begin, 1e-6)) * (WIDTH - LABEL - RIGHT)
  const bottom = TOP + lanes.length * LANE
  const height = bottom + 8

  const ticks = ticksOf(end - begin).map((ms) => {
    const at = x(begin + ms).toFixed(1)
    return `<path class="tick" d="M${at} ${TOP - 6}V${bottom}"/><text class="scale" x="${at}" y="14">${ms} ms</text>`
  })
  const drawn = lanes.map(({ label, holds, waits }, n) => {
    const y = TOP + n * LANE
    const waiting = waits.map((wait) => {
      const [from, until] = [x(wait.from), x(wait.until)]
      return `<path class="wait" d="M${from.toFixed(1)} ${y + LANE / 2}H${until.toFixed(1)}"/>`
    })
    const bars = holds.map((hold) => {
      const [from, until] = [x(hold.from), x(hold.until)]
      const kind = clashing.has(hold) ? 'clash' : `c${colours.get(hold.granted.process) ?? 0}`
      const span = `${(hold.from - begin).toFixed(2)} to ${(Math.min(hold.until, end) - begin).toFixed(2)} ms`
      const ending = hold.endedBy === undefined ? '' : `, ended by ${hold.endedBy}`
      const title = `${hold.owner}, fence ${hold.granted.fence}, ${span}${ending}`
      const width = Math.max(until - from, 0.6).toFixed(1)
      const box = `x="${from.toFixed(1)}" y="${y + 3}" width="${width}" height="${LANE - 6}"`
      return `<rect class="${kind}" ${box}><title>${escapeHtml(title)}</title></rect>`
    })
    const text = `<text class="lane" x="0" y="${y + LANE / 2 + 4}">${escapeHtml(label)}</text>`
    return [text, ...waiting, ...bars].join('')
  })
  const holds = lanes.reduce((sum, lane) => sum + lane.holds.length, 0)
  const clash = clashing.size === 0 ? 'none overlap' : `${clashing.size} overlap`
  const label = `${holds} holds in ${(end - begin).toFixed(0)} ms, ${clash}`
  const box = `viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${label}"`
  return `<svg ${box}>${ticks.join('')}${drawn.join('')}</svg>
<p class="caption">${label}</p>`
}

/** A lane per lock if there are several, otherwise per holder, or per process if there are too many holders. */
function lanesOf(histories: readonly NameHistory[]): readonly Lane[] {
  if (histories.length > 1)
    return histories.map(({ holds }, n) => ({ label: `lock ${n + 1}`, holds, waits: [] }))
  const holds = histories.flatMap((history) => history.holds)
  const waits = histories.flatMap((history) => history.waits)
  const perOwner = new Set(holds.map(({ owner }) => owner)).size <= MOST_LANES
  const lanes = new Map<string, Lane>()
  const laneOf = (owner: string, process: string): Lane => {
    const label = perOwner ? owner : /^\d+$/.test(process) ? `process ${process}` : process
    const lane = lanes.get(label) ?? { label, holds: [], waits: [] }
    lanes.set(label, lane)
    return lane
  }
  for (const hold of holds) laneOf(hold.owner, hold.granted.process).holds.push(hold)
  // In a lane with many tasks there is always a waiter: the line would say nothing.
  if (perOwner) for (const wait of waits) laneOf(wait.owner, wait.called.process).waits.push(wait)
  return [...lanes.values()].toSorted((a, b) => a.label.localeCompare(b.label))
}

function clashes(histories: readonly NameHistory[]): ReadonlySet<Hold> {
  const found = new Set<Hold>()
  for (const { holds } of histories) {
    let longest: Hold | undefined
    for (const hold of holds.toSorted((a, b) => a.from - b.from)) {
      if (longest !== undefined && hold.from < longest.until) found.add(longest).add(hold)
      if (longest === undefined || hold.until > longest.until) longest = hold
    }
  }
  return found
}

function ticksOf(lengthMs: number): readonly number[] {
  const raw = Math.max(lengthMs, 1) / 6
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10) * power
  const ticks: number[] = []
  for (let n = 0; n * step <= lengthMs; n += 1) ticks.push(Number((n * step).toPrecision(6)))
  return ticks
}
