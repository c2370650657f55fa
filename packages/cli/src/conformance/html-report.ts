import { escapeHtml } from './escape-html.ts'
import { byArea, count } from './outcome.ts'
import type { Outcome } from './outcome.ts'
import { style } from './report-style.ts'
import { timeline } from './timeline.ts'

const marks = { passed: '✓', failed: '✗', untested: '–' } as const

/** One page that needs nothing else: the matrix, what failed, what was not tried, and the contended holds as pictures. */
export function htmlReport(subject: string, outcomes: readonly Outcome[], when: Date = new Date()): string {
  const { passed, failed, untested } = count(outcomes)
  const title = `Conformance of ${subject}`
  const verdict = failed > 0 ? `<strong class="failed">${failed} failed</strong>` : 'none failed'
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<header>
<h1>${escapeHtml(title)}</h1>
<p>${passed} passed, ${verdict}, ${untested} untested · <time datetime="${when.toISOString()}">${when.toISOString().slice(0, 16).replace('T', ' ')} UTC</time></p>
</header>
<main>
${failures(outcomes)}
${matrix(outcomes)}
${pictures(outcomes)}
${voidRuns(outcomes)}
${leftOut(outcomes)}
</main>
</body>
</html>
`
}

function matrix(outcomes: readonly Outcome[]): string {
  const rows = [...byArea(outcomes)].map(([area, own]) => {
    const cells = own.map(({ id, state, promise, reason, durationMs }) => {
      const why = state === 'untested' ? `untested: ${reason ?? ''}` : `${state} in ${durationMs} ms`
      return `<li class="${state}" title="${escapeHtml(`${promise} (${why})`)}">${marks[state]} ${id}</li>`
    })
    return `<tr><th scope="row">${area}</th><td><ul>${cells.join('')}</ul></td></tr>`
  })
  return `<section><h2>Rules</h2><table><tbody>${rows.join('')}</tbody></table></section>`
}

function failures(outcomes: readonly Outcome[]): string {
  const failed = outcomes.filter(({ state }) => state === 'failed')
  if (failed.length === 0) return ''
  const items = failed.map(
    ({ id, promise, reason = '' }) =>
      `<article><h3><span class="failed">✗ ${id}</span> ${escapeHtml(promise)}</h3><pre>${escapeHtml(reason)}</pre></article>`,
  )
  return `<section><h2>Failed</h2>${items.join('')}</section>`
}

function pictures(outcomes: readonly Outcome[]): string {
  const recorded = outcomes.flatMap(({ id, promise, history }) =>
    history === undefined || history.length === 0
      ? []
      : [
          `<figure><figcaption><b>${id}</b> ${escapeHtml(promise)}</figcaption><div class="scroll">${timeline(history)}</div></figure>`,
        ],
  )
  if (recorded.length === 0) return ''
  return `<section><h2>Holds as they were recorded</h2>
<p>A bar is a hold, its colour the process that had it, a thin line somebody who waited. Holds of one lock that overlap are
<span class="clash-key">hatched</span>. Point at a bar for its fence.</p>${recorded.join('')}${hatch}</section>`
}

/** Told apart by more than its colour. */
export const hatch: string = `<svg class="defs" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-ground"/><rect width="3" height="6" class="hatch-line"/></pattern></defs></svg>`

function voidRuns(outcomes: readonly Outcome[]): string {
  const rows = outcomes.flatMap(({ id, voids = [] }) =>
    voids.map((why) => `<tr><th scope="row">${id}</th><td>${escapeHtml(why)}</td></tr>`),
  )
  if (rows.length === 0) return ''
  return `<section><h2>Void runs, tried again</h2>
<p>A bound of time was missed while the machine stood still, so the run says nothing about the adapter.</p>
<table><tbody>${rows.join('')}</tbody></table></section>`
}

function leftOut(outcomes: readonly Outcome[]): string {
  const left = outcomes.filter(({ state }) => state === 'untested')
  if (left.length === 0) return ''
  const rows = left.map(
    ({ id, promise, reason = '' }) =>
      `<tr><th scope="row">${id}</th><td>${escapeHtml(promise)}<br><small>${escapeHtml(reason)}</small></td></tr>`,
  )
  return `<section><h2>Untested</h2><table><tbody>${rows.join('')}</tbody></table></section>`
}
