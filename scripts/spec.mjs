import { readFile, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { rules } from '../packages/core/dist/conformance/index.js'

// Writes docs/spec.md from the rules themselves; with --check it only says whether they agree.

const about = new Map([
  ['atomicity', 'A try is granted or refused, as a whole, and of any number of tries one is granted.'],
  [
    'uniqueness',
    'Under sustained contention holds never overlap. Shown twice: by recorded histories, and by a counter that would lose updates.',
  ],
  [
    'ownership',
    'Only the acquisition that was granted the lock can prolong or free it. Tried beneath core too, where nothing else would catch it.',
  ],
  ['re-entry', 'Who already holds the lock does not wait for itself, and nobody else profits.'],
  [
    'waiting',
    'A wait ends by a grant, by its time or by an abort, in bounded time, without a herd, and leaves nothing behind.',
  ],
  ['crash', 'A process that dies in any state costs the others at most its lease.'],
  ['pause', 'A process that was stopped learns that its time is over before its next protected step.'],
  ['renewal', 'A lease lives as long as it is renewed, not longer, and says so in time.'],
  ['fencing', 'Fences only rise, so a resource can tell a stale holder.'],
  ['lost replies', 'The store acted and the answer got lost: the same request again gets the same outcome.'],
  [
    'connections',
    'Connections are refused, cut while they are made, or answer out of step: no call is given the answer to another.',
  ],
  ['names', 'Names and numbers are taken literally or refused, before anything is touched.'],
  ['errors', 'An error says what happened: an outage is not contention, and no secret shows.'],
  ['hygiene', 'Nothing is left: no record, waiter, timer, socket or unhandled rejection.'],
  ['hand-over', 'A lease can go on in another process, once.'],
  [
    'once per period',
    'After a release the name stays taken until a given time after the grant, so that a short job runs once per period.',
  ],
  ['operation', 'Operators see who holds what, and can end a hold without harming the next one.'],
])

const file = new URL('../docs/spec.md', import.meta.url)
const { values } = parseArgs({ options: { check: { type: 'boolean' } } })
const text = render()
if (!values.check) await writeFile(file, text)
else if ((await readFile(file, 'utf8')) !== text) {
  console.error('docs/spec.md does not list the rules as they are; run: node scripts/spec.mjs')
  process.exitCode = 1
}

function render() {
  const count = [...rules.values()].flat().length
  const areas = [...rules].map(([area, list]) => {
    const rows = list.map(
      ({ id, title, kind, needs = [] }) => `| ${id} | ${title} | ${kind} | ${needs.join(', ')} |`,
    )
    const intent = about.get(area)
    if (intent === undefined) throw new Error(`scripts/spec.mjs does not say what ${area} is about`)
    return `## ${area[0]?.toUpperCase()}${area.slice(1)}\n\n${intent}\n\n| rule | promise | kind | needs |\n|---|---|---|---|\n${rows.join('\n')}\n`
  })
  return `# Specification

${count} rules, one promise each. Every adapter passes those that apply to it; the suite in \`@locks/core/conformance\` tries
to break them. This page is written by \`node scripts/spec.mjs\` from the rules themselves.

**Kinds.** *required*: every adapter. *optional*: where the capability is claimed, or, for an honest absence, where it is
not. *stochastic*: a bug shows with some probability per run; a failure is always real. A rule whose needs are not met is
reported as *untested*, with the reason, never as passed.

**Needs.** *processes*: the adapter excludes other processes, so child processes can be killed and paused. *wire*: the
store can be reached through a proxy. *server*, *restart*: the run may stop the server. *secret*: the config has a password.
The others are capabilities.

${areas.join('\n')}`
}
