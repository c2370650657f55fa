import { core } from '../mutants/edits.ts'
import type { Edit } from '../mutants/mutant.ts'

/** A bug that a quiet run does not show, and the faults that do. */
export interface TortureMutant {
  readonly bug: string
  readonly faults: string
  readonly edits: readonly Edit[]
}

const acquisition = core('acquisition')
const hold = core('hold')

export const tortureMutants: readonly TortureMutant[] = [
  {
    bug: 'a grant counts from its reply',
    faults: 'delay',
    edits: [acquisition('this.#take(answer, sentAt)', 'this.#take(answer, clock.now())')],
  },
  {
    bug: 'a renewal counts from its reply',
    faults: 'delay,swallow',
    edits: [
      hold(
        'this.#deadline = Math.max(this.#deadline, sentAt + validMs(ttlMs));',
        'this.#deadline = Math.max(this.#deadline, this.#client.clock.now() + validMs(ttlMs));',
      ),
    ],
  },
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
    faults: 'swallow,pause',
    edits: [hold('return ttlMs - ttlMs / 100 - 2;', 'return ttlMs * 1.5;')],
  },
  {
    bug: 'a grant that was pushed to a waiter counts from when it was read',
    faults: 'pause,block,delay',
    edits: [acquisition('this.#take(pushed, pushed.grantedAt)', 'this.#take(pushed, clock.now())')],
  },
]
