import type { AcquireRequest } from '../adapter/spi.ts'
import { boundedCall } from './deadlines.ts'
import type { Context } from './context.ts'

/** A call that may be granted the name, and when it was sent. */
export interface AttemptUnderWay {
  readonly answer: Promise<unknown>
  readonly sentAt: number
}

/**
 * Withdraws a request, and tries again while the store fails. Never rejects: the ttl ends a hold that this cannot.
 * An `attempt` of the request that is under way goes first. Only one that has been silent for `storeTimeoutMs` is
 * overtaken, and its request is withdrawn again once it is answered.
 */
export function withdraw(
  context: Context,
  request: AcquireRequest,
  attempt?: AttemptUnderWay,
): Promise<void> {
  if (attempt === undefined) return withdrawNow(context, request)
  const withdrawn = context.inBackground(withdrawAfter(context, request, attempt))
  // The next in line waits no longer for both than for one of them.
  return context.inBackground(boundedCall(context, request.name, () => withdrawn, { retry: false }))
}

async function withdrawAfter(
  context: Context,
  request: AcquireRequest,
  { answer, sentAt }: AttemptUnderWay,
): Promise<void> {
  const settled = answer.then(nothing, nothing)
  const overdue = context.clock.now() >= sentAt + context.storeTimeoutMs
  if (overdue || !(await inTime(context, request, settled, sentAt)))
    void settled.then(() => withdrawNow(context, request))
  return withdrawNow(context, request)
}

/** Whether `settled` comes within `storeTimeoutMs` after `since`. */
async function inTime(
  context: Context,
  { name }: AcquireRequest,
  settled: Promise<void>,
  since: number,
): Promise<boolean> {
  try {
    await boundedCall(context, name, () => settled, { retry: false, since })
    return true
  } catch {
    // `settled` cannot reject, so this is the time-out.
    return false
  }
}

/** A closed adapter is asked once: a late answer may have come over a connection that belongs to the program. */
function withdrawNow(context: Context, request: AcquireRequest): Promise<void> {
  const call = (): Promise<void> => context.adapter.withdraw(request)
  const retry = !context.isAdapterClosed
  return context.inBackground(boundedCall(context, request.name, call, { retry }))
}

function nothing(): void {}
