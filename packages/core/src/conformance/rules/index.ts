import type { Area, Rule } from '../rule.ts'
import { atomicity } from './atomicity.ts'
import { connections } from './connections.ts'
import { crash } from './crash.ts'
import { errors } from './errors.ts'
import { fencing } from './fencing.ts'
import { handOver } from './hand-over.ts'
import { hygiene } from './hygiene.ts'
import { lostReplies } from './lost-replies.ts'
import { names } from './names.ts'
import { once } from './once.ts'
import { operation } from './operation.ts'
import { ownership } from './ownership.ts'
import { pause } from './pause.ts'
import { reEntry } from './re-entry.ts'
import { renewal } from './renewal.ts'
import { uniqueness } from './uniqueness.ts'
import { waiting } from './waiting.ts'

/** Every rule, by area, in the order of the specification. */
export const rules: ReadonlyMap<Area, readonly Rule[]> = new Map<Area, readonly Rule[]>([
  ['atomicity', atomicity],
  ['uniqueness', uniqueness],
  ['ownership', ownership],
  ['re-entry', reEntry],
  ['waiting', waiting],
  ['crash', crash],
  ['pause', pause],
  ['renewal', renewal],
  ['fencing', fencing],
  ['lost replies', lostReplies],
  ['connections', connections],
  ['names', names],
  ['errors', errors],
  ['hygiene', hygiene],
  ['hand-over', handOver],
  ['operation', operation],
  ['once per period', once],
])
