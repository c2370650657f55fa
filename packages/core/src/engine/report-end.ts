import type { Context } from './context.ts'
import type { AcquireEnd } from '../api/events.ts'
import type { AcquireRequest } from '../adapter/spi.ts'

/** What an `acquire` event says of one acquire, beside how it ended. */
interface Ending {
  readonly request: AcquireRequest
  readonly calledAt: number
  readonly attempts: number
}

/** Emits the `acquire` event of an acquire that ended, if anybody listens. */
export function reportEnd(context: Context, { request, calledAt, attempts }: Ending, end: AcquireEnd): void {
  const { events, clock } = context
  if (!events.wanted('acquire')) return
  events.emit('acquire', { ...context.about(request), waitMs: clock.now() - calledAt, attempts, ...end })
}
