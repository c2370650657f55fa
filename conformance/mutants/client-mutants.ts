import { adapter, core } from './edits.ts'
import type { Mutant } from './mutant.ts'

const acquisition = core('engine/acquisition')
const contention = core('engine/contention')
const hold = core('engine/hold')
const lease = core('api/lease')
const meter = core('engine/loop-meter')
/** The memory adapter has no connections; its holds may be treated as if they had. */
const connection = adapter("scope: 'process',", "scope: 'process', kind: 'connection',")

/** Bugs of what it means to hold a lock in a program, each with the rule that must notice it. */
export const clientMutants: readonly Mutant[] = [
  // How long a try goes on.
  {
    bug: 'a try gives up when the store fails once',
    rule: 'ERR-14',
    edits: [
      contention('const spent = this.attempts >= this.#settings.attempts;', 'const spent = this.#spent;'),
    ],
  },
  {
    bug: 'an error that no retry can fix is retried until storeTimeoutMs',
    rule: 'ERR-15',
    edits: [core('adapter/lock-error')("error.code !== 'LOCK_UNAVAILABLE'", 'false')],
  },
  // What holding means.
  {
    bug: 'deadline counted from the reply',
    rule: 'RENEW-9',
    edits: [contention('this.#take(answer, sentAt)', 'this.#take(answer, clock.now())')],
  },
  {
    bug: 'a grant slower than its ttl is returned as held',
    rule: 'RENEW-10',
    edits: [contention('if (this.#context.clock.now() < grantedAt + safeTtlMs(grant.ttlMs))', 'if (true)')],
  },
  {
    bug: 'no validity check before a protected write',
    rule: 'PAUSE-2',
    edits: [hold('if (this.live && this.#context.clock.now() >= this.term.deadline)', 'if (false)')],
  },
  {
    bug: 'a hold that is a connection counts as held though nothing was read since a stall',
    rule: 'PAUSE-7',
    given: [connection],
    edits: [meter('return unreadMs > STALL_MS ? unreadMs : 0;', 'return 0;')],
  },
  {
    bug: 'an event loop that runs timers counts as one that reads its sockets',
    rule: 'PAUSE-7',
    given: [connection],
    edits: [meter('if (this.#clock.afterPoll === undefined)', 'if (true)')],
  },
  {
    bug: 'renewal failure taken for success',
    rule: 'RENEW-5',
    edits: [hold("if (outcome === 'unknown') {", 'if (false) {')],
  },
  {
    bug: 'a definite loss is tried again instead of believed',
    rule: 'RENEW-4',
    edits: [hold("if (outcome === 'lost')", 'if (false)')],
  },
  {
    bug: 'the signal never aborts',
    rule: 'RENEW-3',
    edits: [hold('this.#context.events.outside(() => this.#controller?.abort(this.#ended));', ';')],
  },
  {
    bug: 'renewal goes on after release',
    rule: 'RENEW-8',
    edits: [
      hold('this.#alarm.cancel();', ''),
      core('engine/renewals')('filter((hold) => hold.live)', 'filter(() => true)'),
      hold("return this.#state === 'held' || this.#state === 'jeopardy';", 'return true;'),
    ],
  },
  {
    bug: 'a fixed lease is renewed',
    rule: 'RENEW-2',
    edits: [core('engine/term')('this.#renew = renew;', 'this.#renew = true;')],
  },
  {
    bug: 're-entry freed by the first release',
    rule: 'REEN-2',
    edits: [lease('if (hold.leases === 0)', 'if (true)')],
  },
  {
    bug: 'the async context is the owner: branches share what either takes',
    rule: 'REEN-7',
    edits: [
      core('engine/re-entry')(
        'const scope = { context, hold, outer: currentScope(), active: true };',
        'const outer = currentScope();\n    const scope = { context, hold, outer, active: true, taken: [] };\n    outer?.taken.push(scope);',
      ),
      core('engine/re-entry')(
        'const { hold, active } = scope;',
        'const { hold, active } = scope.taken.find((one) => one.active && one.hold.grant.name === name) ?? scope;',
      ),
    ],
  },

  // Waiting, failing, ending.
  {
    bug: 'no poll behind a lost hint',
    rule: 'WAIT-13',
    edits: [contention('startedAt + maxMs + WAIT_GRACE_MS', 'Infinity')],
  },
  {
    bug: 'every local task contends at the store',
    rule: 'WAIT-9',
    edits: [
      core('engine/name-queue')(
        'if (this.#idle() && this.#inLine.size === 0)',
        'if (this.#hold === undefined)',
      ),
    ],
  },
  {
    bug: 'abort leaves the grant behind',
    rule: 'LOST-6',
    edits: [contention('clean ? undefined : withdraw(this.#context, this.#request, attempt)', 'undefined')],
  },
  {
    bug: 'a withdrawal overtakes the attempt that is under way',
    rule: 'LOST-18',
    given: [
      adapter(
        'async attempt(request) {',
        'async attempt(request) {\n            await (this.connected ??= new Promise((done) => setTimeout(done, 30)));',
      ),
    ],
    edits: [core('engine/withdraw')('if (attempt === undefined)', 'if (true)')],
  },
  {
    bug: 'owner id reused across acquires',
    rule: 'OWN-10',
    edits: [core('engine/context')('newAttemptId(this.clientId)', '`${this.clientId}:1`')],
  },
  {
    bug: 'the public owner is the attempt id',
    rule: 'HAND-7',
    edits: [core('engine/context')('defaultOwner(attemptId)', 'attemptId')],
  },
  {
    bug: 'a logged lease shows the id of its attempt',
    rule: 'HAND-7',
    edits: [lease('return { name, owner, state,', 'return { name, ...this.#hold.grant, owner, state,')],
  },
  {
    bug: 'outage reported as busy',
    rule: 'ERR-1',
    edits: [
      contention('return this.#contender.fail(error);', "return this.#contender.refuse('busy', undefined);"),
    ],
  },
  {
    bug: 'monitoring hears nothing of a try that found the lock held',
    rule: 'ERR-17',
    edits: [acquisition('this.#report(holder === undefined ? { outcome } : { outcome, holder });', '')],
  },
  {
    bug: 'monitoring counts an outage as an abort',
    rule: 'ERR-17',
    edits: [acquisition("this.end('unavailable',", "this.end('aborted',")],
  },
  {
    bug: 'any fence of an adapter is believed',
    rule: 'ERR-13',
    edits: [core('engine/checked-answers')('fence >= min && fence <= MAX_FENCE', 'true')],
  },
  {
    bug: 'a grant of another attempt is taken for the own',
    rule: 'ERR-13',
    edits: [core('engine/checked-answers')('if (attemptId !== asked.attemptId)', 'if (false)')],
  },
  {
    bug: 'a grant of another name is taken for the one asked for',
    rule: 'ERR-13',
    edits: [core('engine/checked-answers')('if (name !== asked.name)', 'if (false)')],
  },
  {
    bug: 'the length of a grant is not checked',
    rule: 'ERR-13',
    edits: [core('engine/checked-answers')('!(ttlMs > 0 && ttlMs <= maxTtlMs)', 'false')],
  },
  {
    bug: 'the time to try again is not checked',
    rule: 'ERR-13',
    edits: [core('engine/checked-answers')("readSpan('attempt', 'retryInMs', retryInMs)", 'retryInMs')],
  },
  {
    bug: "the store's own errors reach the caller",
    rule: 'HYG-5',
    edits: [
      core('adapter/lock-error')(
        'if (isLockError(failure))\n        return failure;',
        "return failure ?? new Error('silence');",
      ),
    ],
  },
  {
    bug: 'a wait is given up before its time is over',
    rule: 'WAIT-2',
    edits: [acquisition('+ this.#settings.waitMs;', '+ this.#settings.waitMs * 0.9;')],
  },
  {
    bug: 'a time-out after a wait does not say who holds the lock',
    rule: 'ERR-7',
    edits: [acquisition('{ holder: this.#contention?.busy?.holder }', '{ holder: undefined }')],
  },
  {
    bug: 'a withdrawal leaves the place in the queue',
    rule: 'HYG-1',
    edits: [adapter('entry.queue.delete(attemptId);\n            if', 'if')],
  },
  {
    bug: 'an acquire that timed out goes on listening to its signal',
    rule: 'HYG-10',
    edits: [
      acquisition(
        'if (signal !== undefined && this.#onAbort !== undefined)',
        'if (signal !== undefined && this.#onAbort !== undefined && (this.once || this.#context.clock.now() < this.waitUntil))',
      ),
    ],
  },
  {
    bug: 'a lock lost during the callback does not surface',
    rule: 'ERR-10',
    edits: [core('api/locks')('if (loss !== undefined)\n            throw loss;', '')],
  },
  {
    bug: 'a break ends whatever hold there is',
    rule: 'OPER-3',
    edits: [adapter('|| blockerOf(entry)?.fence !== fence', '')],
  },
  {
    bug: 'a break ignores a misspelt fence',
    rule: 'OPER-3',
    edits: [core('api/locks')("checkKnown(options, ['fence']);", '')],
  },
  {
    bug: 'the last to come is shown as next in line',
    rule: 'OPER-8',
    edits: [adapter('const waiting = queue.map(', 'const waiting = queue.toReversed().map(')],
  },
  {
    bug: 'waiters are shown by the ids of their attempts',
    rule: 'OPER-8',
    edits: [
      adapter(
        '({ owner, metadata, since }));',
        '({ owner, metadata: { ...metadata, host: [...entry.queue.keys()][0] }, since }));',
      ),
    ],
  },
  {
    bug: 'a broken name is not passed on',
    rule: 'OPER-2',
    edits: [
      adapter(
        "entry.held = undefined;\n            passOn(name, entry);\n            return 'broken'",
        "return 'broken'",
      ),
    ],
  },
  {
    bug: 'waiters outlive the client',
    rule: 'HYG-2',
    edits: [core('engine/name-queue')("one.end('aborted', error);", ';')],
  },
]
