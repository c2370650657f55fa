import type { HistoryEvent } from '@locks/core/conformance'
import type { Backend } from '../backend.ts'
import type { FaultKind, ServerFault } from './faults.ts'
import type { Route } from '../route.ts'
import type { Verdict } from './verdict.ts'

export interface TortureOptions extends Backend {
  /** How long faults are injected, before the quiet end. */
  readonly forMs: number
  readonly processes: number
  readonly names: number
  readonly tasks: number
  readonly faults: readonly FaultKind[]
  readonly serverFaults?: readonly ServerFault[]
  readonly seed: number
  /** How clients reach the servers, if the config does not say. */
  readonly route?: Route
  /** Keeps the recorded histories in a new directory below this one. */
  readonly historyIn?: string
  /** Length of a lease, if the store lets the client choose. */
  readonly ttlMs: number
  /** Ends the run early, with a report. */
  readonly signal?: AbortSignal
  /** Called once, before the first worker starts. */
  readonly onBegin?: (plan: Plan) => void
  readonly onProgress?: (progress: Progress) => void
}

export interface Plan {
  readonly runId: string
  /** Length of a lease at this store. */
  readonly ttlMs: number
  /** How long the workers then continue without faults. */
  readonly quietMs: number
  /** Requested faults that cannot be injected here. */
  readonly leftOut?: { readonly faults: readonly FaultKind[]; readonly reason: string }
}

export interface Progress {
  readonly phase: 'faults' | 'quiet' | 'stopping'
  readonly elapsedMs: number
  readonly grants: number
  readonly faults: number
}

export interface TortureResult extends Verdict, Plan {
  readonly seed: number
  readonly interrupted: boolean
  readonly elapsedMs: number
  /** How many of each kind. */
  readonly faults: Readonly<Record<string, number>>
  /** Warnings of Node in a worker, such as one about too many listeners. */
  readonly warnings: readonly string[]
  readonly events: readonly HistoryEvent[]
}
