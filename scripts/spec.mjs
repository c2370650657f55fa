import { readFile, writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { rules } from '../packages/core/dist/conformance/index.js'

// Writes docs/spec.md from the rules; with --check it only compares them.

const about = new Map([
  ['atomicity', 'An attempt is granted or refused as a whole, and of any number of attempts one is granted.'],
  [
    'uniqueness',
    'Under sustained contention holds never overlap. Checked twice: with recorded histories, and with a counter that would lose updates.',
  ],
  [
    'ownership',
    'Only the attempt that was granted the lock can renew or release it. Also tested at the adapter, below the checks of core.',
  ],
  ['re-entry', 'A holder does not wait for itself, and no other owner can enter.'],
  [
    'waiting',
    'A wait ends with a grant, a time-out or an abort, in bounded time, without a herd, and leaves nothing behind.',
  ],
  ['crash', 'A process that dies in any state delays the others by at most its lease.'],
  ['pause', 'A process that was paused learns that its lease is over before its next protected step.'],
  ['renewal', 'A lease lasts as long as it is renewed, not longer, and reports its loss in time.'],
  ['fencing', 'Fences only rise, so a resource can refuse a stale holder.'],
  ['lost replies', 'The store acted and the reply was lost: the repeated request gets the same outcome.'],
  [
    'connections',
    'Connections are refused, cut during the handshake, or answer out of step: no call gets the reply to another.',
  ],
  ['names', 'Names and numbers are used exactly as given or refused, before the store is called.'],
  ['errors', 'An error says what happened: an outage is not contention, and no secret is shown.'],
  ['hygiene', 'Nothing is left behind: no record, waiter, timer, socket or unhandled rejection.'],
  ['hand-over', 'A lease can continue in another process, once.'],
  [
    'once per period',
    'After a release the name stays taken until a given time after the grant, so that a short job runs once per period.',
  ],
  ['operation', 'Operators see all holders, and can end a hold without affecting the next one.'],
])

const file = new URL('../docs/spec.md', import.meta.url)
const { values } = parseArgs({ options: { check: { type: 'boolean' } } })
const text = render()
if (!values.check) await writeFile(file, text)
else if ((await readFile(file, 'utf8')) !== text) {
  console.error('docs/spec.md does not match the rules; run: node scripts/spec.mjs')
  process.exitCode = 1
}

function render() {
  const count = [...rules.values()].flat().length
  const areas = [...rules].map(([area, list]) => {
    const rows = list.map(
      ({ id, title, kind, needs = [] }) => `| ${id} | ${title} | ${kind} | ${needs.join(', ')} |`,
    )
    const intent = about.get(area)
    if (intent === undefined) throw new Error(`scripts/spec.mjs has no text for the area ${area}`)
    return `## ${area[0]?.toUpperCase()}${area.slice(1)}\n\n${intent}\n\n| rule | promise | kind | needs |\n|---|---|---|---|\n${rows.join('\n')}\n`
  })
  return `# Specification

${count} rules, one promise each. Every adapter passes the rules that apply to it; the suite in \`@locks/core/conformance\` tries
to break them. \`node scripts/spec.mjs\` writes this page from the rules. The [glossary](glossary.md) defines the words.

**Kinds.** *required*: every adapter. *optional*: where the capability is claimed, or, for an honest absence, where it is
not. *stochastic*: a bug shows with some probability per run; a failure is always a real bug. A rule whose needs are not met is
reported as *untested*, with the reason, never as passed.

**Needs.** *processes*: the adapter excludes other processes, so child processes can be killed and paused. *wire*: the store can
be reached through a proxy. *server*, *restart*: the run may stop the server. *secret*: the config has a password. The others are
capabilities.

${areas.join('\n')}`
}
