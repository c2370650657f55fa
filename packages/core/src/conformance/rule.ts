import type { Capabilities } from '../adapter/capabilities.ts'
import type { Harness } from './harness.ts'
import type { Subject } from './subject.ts'

export type Area =
  | 'atomicity'
  | 'uniqueness'
  | 'ownership'
  | 're-entry'
  | 'waiting'
  | 'crash'
  | 'pause'
  | 'renewal'
  | 'fencing'
  | 'lost replies'
  | 'connections'
  | 'names'
  | 'errors'
  | 'hygiene'
  | 'hand-over'
  | 'operation'
  | 'once per period'

/**
 * `required`: for every adapter. `optional`: where the capability is claimed or, to test that it is refused, where it
 * is not. `stochastic`: a bug shows with some probability per run; a failure is always real.
 */
export type RuleKind = 'required' | 'optional' | 'stochastic'

/** One promise, and the program that tries to break it. */
export interface Rule {
  /** Stable; listed in the specification. */
  readonly id: string
  readonly title: string
  readonly kind: RuleKind
  readonly needs?: readonly Need[]
  /** How long it may take, before scaling. Default: 30 s. */
  readonly timeoutMs?: number
  /** It keeps the process busy, or counts things of the whole process: no other case may run at the same time. */
  readonly alone?: true
  run(harness: Harness): Promise<void>
}

/** What a rule needs from the subject or from the adapter's capabilities. */
export type Need =
  | 'processes'
  | 'wire'
  | 'server'
  | 'restart'
  | 'secret'
  | 'lease'
  | 'session'
  | 'connection'
  | 'fencing'
  | 'push'
  | 'handoff'
  | 'fifo'
  | 'handover'
  | 'no handover'
  | 'lock-delay'
  | 'no lock-delay'
  | 'min-hold'
  | 'no min-hold'
  | 'list'
  | 'no list'
  | 'break'
  | 'no break'

/** Why a rule is not run on a subject. */
export interface Gap {
  readonly reason: string
  /** False: the adapter does not claim what the rule is about. True: the subject lacks what the rule needs. */
  readonly applicable: boolean
}

type Judge = (subject: Subject, capabilities: Capabilities) => Gap | undefined

const unless = (met: boolean, reason: string): Gap | undefined =>
  met ? undefined : { reason, applicable: false }

const given = (isThere: boolean, reason: string): Gap | undefined =>
  isThere ? undefined : { reason, applicable: true }

/** A store inside the process has no connection to cut and no server to stop. */
const outside: Judge = (_, { scope }) => unless(scope !== 'process', 'scope is process')

/** For each need, why it is not met. */
const needs: Record<Need, Judge> = {
  processes: outside,
  wire: (subject, capabilities) =>
    outside(subject, capabilities) ?? given(subject.wire !== undefined, 'no way through a proxy was given'),
  server: (subject, capabilities) =>
    outside(subject, capabilities) ?? given(subject.server !== undefined, 'the server is not ours to stop'),
  restart: (subject, capabilities) =>
    outside(subject, capabilities) ??
    given(subject.server?.restart !== undefined, 'the server is not ours to restart'),
  secret: ({ secret }) => given(secret !== undefined, 'the config has no secret'),
  lease: (_, { kind }) => unless(kind === 'lease', `kind is ${kind}`),
  session: (_, { kind }) => unless(kind !== 'lease', 'kind is lease'),
  connection: (_, { kind }) => unless(kind === 'connection', `kind is ${kind}`),
  fencing: (_, { fencing }) => unless(fencing !== 'none', 'fencing is switched off'),
  push: (_, { wait }) => unless(wait !== 'poll', 'wait is poll'),
  handoff: (_, { wait }) => unless(wait === 'handoff', 'wait is not handoff'),
  fifo: (_, { fairness }) => unless(fairness === 'fifo', 'fairness is not fifo'),
  handover: (_, { handover }) => unless(handover, 'no hand-over'),
  'no handover': (_, { handover }) => unless(!handover, 'hand-over is claimed'),
  'lock-delay': (_, { lockDelay }) => unless(lockDelay, 'no lock-delay'),
  'no lock-delay': (_, { lockDelay }) => unless(!lockDelay, 'lock-delay is claimed'),
  'min-hold': (_, { minHold }) => unless(minHold, 'no minimum hold'),
  'no min-hold': (_, { minHold }) => unless(!minHold, 'a minimum hold is claimed'),
  list: (_, { list }) => unless(list, 'cannot list'),
  'no list': (_, { list }) => unless(!list, 'list is claimed'),
  break: (_, capabilities) => unless(capabilities.break, 'cannot break'),
  'no break': (_, capabilities) => unless(!capabilities.break, 'break is claimed'),
}

/** Why `rule` cannot run on `subject`; undefined if it can. That it does not apply takes precedence. */
export function whyUntested(rule: Rule, subject: Subject, capabilities: Capabilities): Gap | undefined {
  let first: Gap | undefined
  for (const need of rule.needs ?? []) {
    const gap = needs[need](subject, capabilities)
    if (gap?.applicable === false) return gap
    first ??= gap
  }
  return first
}
