import { htmlPage, timeTag } from '../html-page.ts'
import { escapeHtml } from './escape-html.ts'
import { byArea, count } from './outcome.ts'
import type { Outcome, RunInfo } from './outcome.ts'
import { circumstances } from './text-report.ts'
import { timeline } from './timeline.ts'

const marks = { passed: '✓', failed: '✗', 'not applicable': 'n/a', 'not tried': '?' } as const

/** Beside the marks: what has no result, and why. */
const explained: Readonly<Record<string, string>> = {
  'not applicable': ': the adapter does not claim it',
  'not tried': ': this run lacks what it needs',
}

const meanings = {
  'not applicable': 'The adapter does not claim the capability of these rules.',
  'not tried': 'These rules apply, but this run lacks what they need.',
} as const

/** One self-contained page: the results, failures, rules that did not run, and timelines of the contended holds. */
export function htmlReport(
  info: RunInfo,
  outcomes: readonly Outcome[],
  again: (id: string) => string,
  when: Date = new Date(),
): string {
  const { passed, failed, notApplicable, notTried } = count(outcomes)
  const title = `Conformance of ${info.subject}`
  const verdict = failed > 0 ? `<strong class="failed">${failed} failed</strong>` : 'none failed'
  return htmlPage(title, {
    summary: `<p>${passed} passed, ${verdict}, ${notApplicable} not applicable, ${notTried} not tried</p>
<p>${escapeHtml(circumstances(info))} · ${timeTag(when)}</p>`,
    main: `${failures(outcomes, again)}
${matrix(outcomes)}
${pictures(outcomes)}
${voidRuns(outcomes)}
${leftOut(outcomes, 'not tried')}
${leftOut(outcomes, 'not applicable')}`,
  })
}

function matrix(outcomes: readonly Outcome[]): string {
  const rows = [...byArea(outcomes)].map(([area, own]) => {
    const cells = own.toSorted(byNumber).map(({ id, state, promise, reason, durationMs }) => {
      const wasRun = state === 'passed' || state === 'failed'
      const why = wasRun ? `${state} in ${durationMs} ms` : `${state}: ${reason ?? ''}`
      return `<li class="${classOf(state)}" title="${escapeHtml(`${promise} (${why})`)}">${marks[state]} ${id}</li>`
    })
    return `<tr><th scope="row">${area}</th><td><ul>${cells.join('')}</ul></td></tr>`
  })
  return `<section><h2>Rules</h2>${legend(outcomes)}<table><tbody>${rows.join('')}</tbody></table></section>`
}

function byNumber({ id: a }: Outcome, { id: b }: Outcome): number {
  return Number(/\d+$/.exec(a)?.[0]) - Number(/\d+$/.exec(b)?.[0])
}

function legend(outcomes: readonly Outcome[]): string {
  const used = Object.entries(marks).filter(([state]) => outcomes.some((one) => one.state === state))
  const items = used.map(
    ([state, mark]) => `<li class="${classOf(state)}">${mark} ${state}${explained[state] ?? ''}</li>`,
  )
  return `<ul class="legend">${items.join('')}</ul>`
}

function classOf(state: string): string {
  return state.replace(' ', '-')
}

function failures(outcomes: readonly Outcome[], again: (id: string) => string): string {
  const failed = outcomes.filter(({ state }) => state === 'failed')
  if (failed.length === 0) return ''
  const items = failed.map(
    ({ id, promise, reason = '' }) =>
      `<article><h3><span class="failed">✗ ${id}</span> ${escapeHtml(promise)}</h3><pre>${escapeHtml(reason)}</pre>
<p class="again">Run it alone: <code>${escapeHtml(again(id))}</code></p></article>`,
  )
  return `<section><h2>Failed</h2>${items.join('')}</section>`
}

function pictures(outcomes: readonly Outcome[]): string {
  const recorded = outcomes.flatMap(({ id, promise, history }) =>
    history === undefined || history.length === 0
      ? []
      : [
          `<figure><figcaption><b>${id}</b> ${escapeHtml(promise)}</figcaption>
<div class="scroll">${timeline(history)}</div></figure>`,
        ],
  )
  if (recorded.length === 0) return ''
  return `<section><h2>Recorded holds</h2>
<p>A bar is a hold; its colour is the process. A thin line is a waiter. Overlapping holds of one lock are
<span class="clash-key">hatched</span>. Point at a bar for its fence.</p>${recorded.join('')}${hatch}</section>`
}

/** An overlap is marked by more than its colour. */
export const hatch: string = `<svg class="defs" aria-hidden="true"><defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" class="hatch-ground"/><rect width="3" height="6" class="hatch-line"/></pattern>
</defs></svg>`

function voidRuns(outcomes: readonly Outcome[]): string {
  const rows = outcomes.flatMap(({ id, voids = [] }) =>
    voids.map((why) => `<tr><th scope="row">${id}</th><td>${escapeHtml(why)}</td></tr>`),
  )
  if (rows.length === 0) return ''
  return `<section><h2>Void runs, repeated</h2>
<p>A time limit was missed because the machine stalled, so the run says nothing about the adapter.</p>
<table><tbody>${rows.join('')}</tbody></table></section>`
}

function leftOut(outcomes: readonly Outcome[], state: keyof typeof meanings): string {
  const left = outcomes.filter((one) => one.state === state)
  if (left.length === 0) return ''
  const rows = left.map(
    ({ id, promise, reason = '' }) =>
      `<tr><th scope="row">${id}</th><td>${escapeHtml(promise)}<br><small>${escapeHtml(reason)}</small></td></tr>`,
  )
  const title = state === 'not tried' ? 'Not tried' : 'Not applicable'
  return `<section><h2>${title}</h2><p>${meanings[state]}</p><table><tbody>${rows.join('')}</tbody></table></section>`
}
