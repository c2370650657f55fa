import type { Client } from './client.ts'
import type { AcquireEnd } from './events.ts'
import type { AcquireRequest } from './spi.ts'

/** What an `acquire` event says of one acquire, beside how it ended. */
interface Ending {
  readonly request: AcquireRequest
  readonly calledAt: number
  readonly attempts: number
}

/** Emits the `acquire` event of an acquire that ended, if anybody listens. */
export function reportEnd(client: Client, { request, calledAt, attempts }: Ending, end: AcquireEnd): void {
  const { events, clock } = client
  if (!events.wanted('acquire')) return
  events.emit('acquire', { ...client.about(request), waitMs: clock.now() - calledAt, attempts, ...end })
}
