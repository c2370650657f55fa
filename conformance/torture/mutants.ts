import { core } from '../mutants/edits.ts'
import type { Edit } from '../mutants/mutant.ts'

/** A bug, and faults that show it. */
export interface TortureMutant {
  readonly bug: string
  readonly faults: string
  /** The check that must find it. */
  readonly shows: 'two holders' | 'fence order' | 'held by nobody'
  /**
   * Without faults it does not show. The other bugs also show when a lease ends, or when a busy machine is late by a few
   * milliseconds.
   */
  readonly quiet?: true
  readonly edits: readonly Edit[]
}

const hold = core('engine/hold')
const redis =
  (file: string) =>
  (find: string, replace: string): Edit => ({ file: `redis/${file}.js`, find, replace })
const scripts = redis('queue-scripts')
const waiters = redis('waiters')
const adapter = redis('adapter')

export const tortureMutants: readonly TortureMutant[] = [
  {
    bug: 'a renewal that failed extends the lease all the same',
    faults: 'refuse',
    shows: 'two holders',
    quiet: true,
    edits: [hold("if (outcome === 'renewed')", "if (outcome !== 'lost')")],
  },
  {
    bug: 'a lease is taken for valid until a timer says otherwise',
    faults: 'pause,block',
    shows: 'two holders',
    quiet: true,
    edits: [hold('if (this.live && this.#context.clock.now() >= this.term.deadline)', 'if (false)')],
  },
  {
    bug: 'a lease is relied on for longer than the store keeps it',
    faults: 'refuse',
    shows: 'two holders',
    edits: [core('adapter/time')('return ttlMs - ttlMs / 100 - 2;', 'return ttlMs * 1.5;')],
  },
  {
    bug: 'assertHeld passes after a loss',
    faults: 'pause,refuse',
    shows: 'two holders',
    edits: [core('api/lease')('throw this.#hold.ended ?? this.#notOwned();', '')],
  },
  {
    bug: 'the clock stands still while the process does',
    faults: 'pause,block',
    shows: 'two holders',
    edits: [
      core('adapter/time')(
        'now: () => performance.now(),',
        `last: performance.now(),
    sum: 0,
    now() {
        const now = performance.now();
        this.sum += Math.min(now - this.last, 100);
        this.last = now;
        return this.sum;
    },`,
      ),
    ],
  },
  {
    bug: 'a grant counts from its reply',
    faults: 'delay',
    shows: 'two holders',
    edits: [core('engine/contention')('this.#take(answer, sentAt)', 'this.#take(answer, clock.now())')],
  },
  {
    bug: 'a renewal counts from its reply',
    faults: 'delay',
    shows: 'two holders',
    edits: [hold('term.extend(sentAt, ttlMs)', 'term.extend(this.#context.clock.now(), ttlMs)')],
  },
  {
    bug: 'redis: a pushed grant counts from its receipt',
    faults: 'delay',
    shows: 'two holders',
    edits: [
      waiters('if (mapped + ttlMs <= now)', 'if (false)'),
      waiters('grantedAt: Math.min(mapped, now)', 'grantedAt: now'),
    ],
  },
  {
    bug: 'redis: a late release frees the lock of the next holder',
    faults: 'delay',
    shows: 'two holders',
    edits: [
      scripts('if held.err or not held[1] or not', 'if held.err or not'),
      scripts(
        "redis.call('HDEL', lock, attempt, '${HOLD_FIELD}', '${QUEUE_FIELD}')",
        "redis.call('DEL', lock)",
      ),
    ],
  },
  {
    bug: 'redis: every holder of a name has the same fence',
    faults: 'pause',
    shows: 'fence order',
    edits: [scripts('local fence = now\nif last and (', 'local fence = last or now\nif false and (')],
  },
  {
    bug: 'redis: an attempt that failed counts as a refusal',
    faults: 'cut,refuse',
    shows: 'held by nobody',
    quiet: true,
    edits: [
      adapter(
        '        attempt,\n',
        '        attempt: (request) => attempt(request).catch(() => ({ busy: true })),\n',
      ),
    ],
  },
  {
    bug: 'redis: a renewal that failed counts as done',
    faults: 'cut,refuse',
    shows: 'two holders',
    quiet: true,
    edits: [
      adapter(
        'store.renew(renewals),',
        `store.renew(renewals).then(
            (all) => all.map((one) => (one === 'lost' ? one : 'renewed')),
            () => renewals.map(() => 'renewed'),
        ),`,
      ),
    ],
  },
  {
    bug: 'redis: an attempt without an answer counts as a grant',
    faults: 'cut,refuse',
    shows: 'two holders',
    quiet: true,
    edits: [
      adapter(
        '        attempt,\n',
        `        attempt: (request) => attempt(request).catch(() => {
            const { name, attemptId, ttlMs } = request;
            return { name, attemptId, ttlMs, fence: BigInt(Date.now()) * 1000n };
        }),
`,
      ),
    ],
  },
]
