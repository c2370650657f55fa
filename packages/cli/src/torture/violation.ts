import type { HistoryEvent } from '@locks/core/conformance'

/** Something that must never happen, with the events that show it. */
export interface Violation {
  readonly check: string
  readonly message: string
  readonly events: readonly HistoryEvent[]
}
