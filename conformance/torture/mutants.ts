import { core } from '../mutants/edits.ts'
import type { Edit } from '../mutants/mutant.ts'

/** A bug that a quiet run does not show, and the faults that do. */
export interface TortureMutant {
  readonly bug: string
  readonly faults: string
  readonly edits: readonly Edit[]
}

const hold = core('hold')

export const tortureMutants: readonly TortureMutant[] = [
  {
    bug: 'a renewal that failed extends the lease all the same',
    faults: 'refuse',
    edits: [
      hold(
        "if (outcome === 'renewed')\n            this.#deadline",
        "if (outcome !== 'lost')\n            this.#deadline",
      ),
    ],
  },
  {
    bug: 'a lease is taken for valid until a timer says otherwise',
    faults: 'pause,block',
    edits: [hold('if (this.live && this.#client.clock.now() >= this.#deadline)', 'if (false)')],
  },
  {
    bug: 'a lease is relied on for longer than the store keeps it',
    faults: 'refuse',
    edits: [hold('return ttlMs - ttlMs / 100 - 2;', 'return ttlMs * 1.5;')],
  },
  {
    bug: 'assertHeld passes after a loss',
    faults: 'pause,refuse',
    edits: [core('lease')('throw this.#hold.ended ?? this.#notOwned();', '')],
  },
  {
    bug: 'the clock stands still while the process does',
    faults: 'pause,block',
    edits: [
      core('clock')(
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
]
