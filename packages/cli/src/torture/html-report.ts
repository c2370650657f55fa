import type { HistoryEvent } from '@locks/core/conformance'
import { escapeHtml } from '../conformance/escape-html.ts'
import { hatch } from '../conformance/html-report.ts'
import { timeline } from '../conformance/timeline.ts'
import { htmlPage, timeTag } from '../html-page.ts'
import { showDuration } from '../duration.ts'
import { toJson } from '../output.ts'
import type { TortureResult } from './options.ts'
import { overview } from './overview.ts'
import { countOf, countsOf } from './text-report.ts'
import type { Violation } from './violation.ts'

const MOST_SHOWN = 20
const AROUND_MS = 250

const ownStyle = `
.on-process { fill: var(--c2) }
.on-wire { fill: var(--c3) }
.on-server { fill: var(--c4) }
.mark { text-anchor: middle; font-size: 13px }
.mark.lost, .mark.killed { fill: var(--bad) }
.mark.stale { fill: var(--text) }
.key { display: inline-block; width: 1.2em; height: .7em; border-radius: 2px }
.key.k0 { background: var(--c0) }
.key.k2 { background: var(--c2) }
.key.k3 { background: var(--c3) }
.key.k4 { background: var(--c4) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0 }
dt { color: var(--soft) }
dd { margin: 0 }
`

/** One self-contained page: the counts, the run by worker, and a timeline of each violation. */
export function htmlReport(backend: string, result: TortureResult, when: Date = new Date()): string {
  const { violations, withinBound, events, seed } = result
  const title = `Torture of ${backend}`
  const verdict =
    violations.length > 0
      ? `<strong class="failed">${countOf(violations.length)}</strong>`
      : `no violation${result.interrupted ? ' before the interruption' : ''}`
  return htmlPage(title, {
    css: ownStyle,
    summary: `<p>${verdict} · seed ${seed} · ${timeTag(when)}</p>`,
    main: `${figures(result)}
${violations.length === 0 ? '' : found('Violations', violations, events)}
<section><h2>The run by worker</h2>
<p><span class="key k0"></span> holds a lock; below it the faults:
<span class="key k2"></span> paused or blocked, <span class="key k3"></span> its connections,
<span class="key k4"></span> the servers.
✕ killed, ▾ lost a lease and noticed, ⊘ a stale write was refused. Point at a mark for more.</p>
<figure><div class="scroll">${overview(events)}</div></figure></section>
${withinBound.length === 0 ? '' : found('Overlaps within the documented bound of this backend', withinBound, events)}
${hatch}`,
  })
}

function figures(result: TortureResult): string {
  const { recoveryMs, leftOut } = result
  const rows: readonly (readonly [string, string])[] = [
    ['Grants', `${result.grants}, of which ${result.contendedWaits} after a wait for another holder`],
    ['Not granted', `${result.busy} without a wait, ${result.timeouts} after a wait`],
    ['Faults', countsOf(result.faults)],
    ...(leftOut === undefined
      ? []
      : [['Not applied', `${leftOut.faults.join(', ')}: ${leftOut.reason}`] as const]),
    ['Lost leases', `${result.losses} noticed by their holder, ${result.refusedWrites} stale writes refused`],
    ['Recovery', `p50 ${showDuration(recoveryMs.p50)}, longest ${showDuration(recoveryMs.max)}`],
    ['Lease', showDuration(result.ttlMs)],
  ]
  return `<section><h2>Summary</h2><dl>${rows
    .map(([left, right]) => `<dt>${left}</dt><dd>${escapeHtml(right)}</dd>`)
    .join('')}</dl></section>`
}

function found(title: string, violations: readonly Violation[], events: readonly HistoryEvent[]): string {
  const items = violations.slice(0, MOST_SHOWN).map((one) => {
    const lines = one.events.map((event) => toJson(event)).join('\n')
    return `<article><h3><span class="failed">✗ ${escapeHtml(one.check)}</span> ${escapeHtml(one.message)}</h3>
<pre>${escapeHtml(lines)}</pre>${closeBy(one, events)}</article>`
  })
  const more = violations.length > MOST_SHOWN ? `<p>… and ${violations.length - MOST_SHOWN} more</p>` : ''
  return `<section><h2>${title}</h2>${items.join('')}${more}</section>`
}

/** A timeline of the events of that name around that time. */
function closeBy({ events: proof }: Violation, events: readonly HistoryEvent[]): string {
  const name = proof.flatMap((event) => ('name' in event ? [event.name] : []))[0]
  if (name === undefined) return ''
  const times = proof.map(({ t }) => t)
  const [from, until] = [Math.min(...times) - AROUND_MS, Math.max(...times) + AROUND_MS]
  const near = events.filter(
    (event) => 'task' in event && event.name === name && event.t >= from && event.t <= until,
  )
  return near.length === 0 ? '' : `<figure><div class="scroll">${timeline(near)}</div></figure>`
}
