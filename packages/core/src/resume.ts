import type { Client } from './client.ts'
import { isLockError, LockError, quote } from './errors.ts'
import { readHandover } from './handover.ts'
import { Hold } from './hold.ts'
import { LeaseHandle } from './lease.ts'
import type { LockOptions, Settings } from './options.ts'
import { reportEnd } from './report-end.ts'
import type { Grant } from './spi.ts'
import { callStore } from './store-call.ts'
import { validMs } from './valid-ms.ts'
import { checkName, settle, unsupported } from './validate.ts'

export type ResumeOptions = Pick<LockOptions, 'renew' | 'maxHoldMs' | 'label'>

/** Continues the lease that `text` describes, as its one successor. */
export async function resumeLease(
  client: Client,
  defaults: Settings,
  text: string,
  options: ResumeOptions,
): Promise<LeaseHandle> {
  client.assertOpen()
  const { adapter, clock } = client
  const from = readHandover(text)
  const { name, owner, ttlMs, lockDelayMs, minHoldMs = 0 } = from
  checkName(name, adapter.capabilities)
  const chosen = settle('resume', options, defaults, adapter.capabilities)
  const terms = { owner, ttlMs, lockDelayMs, minHoldMs }
  const settings = settle('acquire', terms, chosen, adapter.capabilities)
  const adopt = adapter.adopt?.bind(adapter)
  if (adopt === undefined) throw unsupported('resume (hand-over)')

  const request = client.request(name, settings)
  const calledAt = clock.now()
  let sentAt = calledAt
  let attempts = 0
  let givenUp = false
  const call = (): Promise<Grant | 'lost'> => {
    sentAt = clock.now()
    attempts += 1
    const adopted = adopt(from, request)
    // Whatever comes of it after that, nobody wants it.
    const dropLate = (): void => void (givenUp && client.undo(request))
    adopted.then(dropLate, dropLate)
    return adopted
  }
  const adopting = callStore(client, name, call, { retry: true })
  // So that `close` waits for the outcome, and for the withdrawal that may follow.
  void client.inBackground(adopting)
  try {
    const { answer: grant } = await adopting
    client.assertOpen()
    if (grant === 'lost' || clock.now() >= sentAt + validMs(grant.ttlMs))
      throw new LockError('LOCK_LOST', `the serialised lease of ${quote(name)} is over`, { lock: name })
    const slot = client.slot(name)
    const hold = new Hold(client, slot, request, grant, sentAt, settings)
    const lease = LeaseHandle.first(client, hold, calledAt, attempts)
    slot.occupy(hold)
    return lease
  } catch (error) {
    givenUp = true
    void client.undo(request)
    reportEnd(client, { request, calledAt, attempts }, { outcome: outcomeOf(error), error })
    throw error
  }
}

function outcomeOf(error: unknown): 'lost' | 'aborted' | 'unavailable' {
  if (isLockError(error, 'LOCK_LOST')) return 'lost'
  return isLockError(error, 'LOCK_CLOSED') ? 'aborted' : 'unavailable'
}
