import type { Client } from '../engine/client.ts'
import { isLockError, LockError, quote } from '../adapter/lock-error.ts'
import { readHandover } from './serialized-lease.ts'
import { Hold } from '../engine/hold.ts'
import { LeaseHandle } from './lease.ts'
import type { ResumeOptions } from './options.ts'
import type { Settings } from '../engine/settings.ts'
import type { Grant } from '../adapter/spi.ts'
import { boundedCall } from '../engine/deadlines.ts'
import { withdraw } from '../engine/withdraw.ts'
import { safeTtlMs } from '../adapter/time.ts'
import { checkName, settle } from './validate.ts'
import { unsupported } from '../adapter/lock-error.ts'

/** Continues the lease that `text` describes, as its only successor. */
export async function resumeLease(
  { context, queues }: Client,
  defaults: Settings,
  text: string,
  options: ResumeOptions,
): Promise<LeaseHandle> {
  context.assertOpen()
  const { adapter, clock } = context
  const from = readHandover(text)
  const { name, owner, ttlMs, lockDelayMs, minHoldMs = 0 } = from
  checkName(name, adapter.capabilities)
  const chosen = settle('resume', options, defaults, adapter.capabilities)
  const terms = { owner, ttlMs, lockDelayMs, minHoldMs }
  const settings = settle('acquire', terms, chosen, adapter.capabilities)
  const adopt = adapter.adopt?.bind(adapter)
  if (adopt === undefined) throw unsupported('resume (hand-over)')

  const request = context.request(name, settings)
  const calledAt = clock.now()
  let sentAt = calledAt
  let attempts = 0
  let answer: Promise<Grant | 'lost'> | undefined
  const call = (): Promise<Grant | 'lost'> => {
    sentAt = clock.now()
    attempts += 1
    return (answer = adopt(from, request))
  }
  const adopting = boundedCall(context, name, call, { retry: true })
  // So that `close` waits for the outcome, and for the withdrawal that may follow.
  void context.inBackground(adopting)
  try {
    const { answer: grant } = await adopting
    context.assertOpen()
    if (grant === 'lost' || clock.now() >= sentAt + safeTtlMs(grant.ttlMs))
      throw new LockError(
        'LOCK_LOST',
        `the serialized lease of ${quote(name)} has ended or was resumed before`,
        { lock: name },
      )
    const queue = queues.of(name)
    const hold = new Hold(context, queue, request, grant, sentAt, settings)
    const lease = LeaseHandle.first(context, hold, calledAt, attempts)
    queue.occupy(hold)
    return lease
  } catch (error) {
    void withdraw(context, request, answer && { answer, sentAt })
    context.reportEnd({ request, calledAt, attempts }, { outcome: outcomeOf(error), error })
    throw error
  }
}

function outcomeOf(error: unknown): 'lost' | 'aborted' | 'unavailable' {
  if (isLockError(error, 'LOCK_LOST')) return 'lost'
  return isLockError(error, 'LOCK_CLOSED') ? 'aborted' : 'unavailable'
}
