import { adapter, core } from './edits.ts'
import type { Mutant } from './mutant.ts'

const hold = core('engine/hold')
const term = core('engine/term')

/** Bugs that make a job run twice in a period, or never again, each with the rule that must notice it. */
export const onceMutants: readonly Mutant[] = [
  {
    bug: 'minHoldMs never reaches the store',
    rule: 'ONCE-1',
    edits: [hold('adapter.release(this.grant, keepMs)', 'adapter.release(this.grant)')],
  },
  {
    bug: 'the store frees the name at the release',
    rule: 'ONCE-1',
    edits: [adapter('keepMs > 0 ? kept(entry.held, keepMs) : undefined', 'undefined')],
  },
  {
    bug: 'a name that was kept is never free again',
    rule: 'ONCE-1',
    edits: [adapter('blockedUntil: now + keepMs', 'blockedUntil: Infinity')],
  },
  {
    bug: 'minHoldMs counts from the release',
    rule: 'ONCE-2',
    edits: [term('Math.max(0, safeTtlMs(now - this.#answeredAt))', '0')],
  },
  {
    bug: 'the store counts from the grant what core has counted already',
    rule: 'ONCE-2',
    edits: [adapter('blockedUntil: now + keepMs', 'blockedUntil: held.grantedAt + keepMs')],
  },
  {
    bug: 'a release hands the name to a waiter although it is to stay taken',
    rule: 'ONCE-3',
    edits: [
      adapter(
        'if (blockerOf(entry) === undefined) {',
        'if (blockerOf(entry) === undefined || entry.held.expiresAt <= clock.now()) {',
      ),
    ],
  },
  {
    bug: 'waiters are not told that the hold ends earlier than it would have',
    rule: 'ONCE-3',
    edits: [adapter('next?.wake.wakeBy(entry.held.blockedUntil)', 'void 0')],
  },
  {
    bug: 'after the minimum hold the last in line is first',
    rule: 'ONCE-4',
    edits: [
      adapter(
        'const [first] = entry.queue.values();',
        'const [first] = [...entry.queue.values()].reverse();',
      ),
    ],
  },
  {
    bug: 'a name is kept after a break',
    rule: 'ONCE-7',
    edits: [
      adapter(
        'blockerOf(entry)?.fence !== fence',
        'blockerOf(entry)?.fence !== fence || entry.held.expiresAt <= clock.now()',
      ),
    ],
  },
  {
    bug: 'a store that cannot is asked all the same',
    rule: 'ONCE-8',
    given: [adapter('minHold: true', 'minHold: false')],
    edits: [core('api/validate')('minHoldMs > 0 && !capabilities.minHold', 'false')],
  },
  {
    bug: 'a withdrawal that comes late frees the name',
    rule: 'ONCE-9',
    edits: [adapter('attemptId: keptAttemptId(held.attemptId),', '')],
  },
  {
    bug: 'minHoldMs counts from when the request was sent',
    rule: 'ONCE-10',
    edits: [
      term('new MinHold(now)', 'new MinHold(this.since)'),
      term('this.#minHold.add(minHoldMs, now)', 'this.#minHold.add(minHoldMs, this.since)'),
    ],
  },
  {
    bug: 'minHoldMs of a re-entry is forgotten',
    rule: 'ONCE-11',
    edits: [core('api/locks')('held.keepFor(settings.minHoldMs);', '')],
  },
  {
    bug: 'a lease that is handed over forgets its minHoldMs',
    rule: 'ONCE-11',
    edits: [core('api/lease')('minHoldMs === 0 ? lease : { ...lease, minHoldMs }', 'lease')],
  },
  {
    bug: 'once is a try, and no more',
    rule: 'ONCE-12',
    edits: [core('api/locks')('...settings, reenters: false', '...settings, reenters: false, minHoldMs: 0')],
  },
]
