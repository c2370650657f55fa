import { adapterFault } from '../engine/adapter-fault.ts'
import type { Context } from '../engine/context.ts'
import type { Finding, Holder, LockState } from '../adapter/spi.ts'
import { boundedCall } from '../engine/deadlines.ts'
import { FENCE_IDLE_MS, MAX_FENCE_IDLE_MS } from '../adapter/upkeep.ts'
import type { PruneOptions } from './options.ts'
import { checkInteger, checkKnown, checkName, checkWhole } from './validate.ts'
import { invalid, unsupported } from '../adapter/lock-error.ts'

// What operators do with a store, as opposed to what programs do with a lock.

export async function breakHold(
  context: Context,
  inspect: () => Promise<LockState>,
  fence: bigint | undefined,
): Promise<Holder | null> {
  const breakIt = context.adapter.break?.bind(context.adapter)
  if (breakIt === undefined) throw unsupported('break')
  const { name, held, holder } = await inspect()
  if (!held || holder === undefined) return null
  if (fence !== undefined && holder.fence !== fence) return null
  // The client may have been closed since `inspect`.
  context.assertOpen()
  const { answer, tries } = await boundedCall(context, name, () => breakIt(name, holder), { retry: true })
  // An earlier try, whose reply was lost, may have ended the hold.
  return answer === 'broken' || tries > 1 ? holder : null
}

export async function listHeld(context: Context, limit: number): Promise<readonly LockState[]> {
  context.assertOpen()
  checkInteger('limit', limit)
  const list = context.adapter.list?.bind(context.adapter)
  if (list === undefined) throw unsupported('list')
  return (await boundedCall(context, '(all)', () => list(limit), { retry: false })).answer
}

export async function diagnose(context: Context): Promise<readonly Finding[]> {
  context.assertOpen()
  const look = context.adapter.diagnose?.bind(context.adapter)
  if (look === undefined) return []
  return (await boundedCall(context, '(all)', look, { retry: false })).answer
}

/** More steps without a result than any store needs for a full scan. */
const MAX_EMPTY_STEPS = 1_000_000

export async function prune(context: Context, options: PruneOptions): Promise<number> {
  context.assertOpen()
  checkKnown(options, ['idleMs', 'names'])
  const { names } = options
  const idleMs = checkWhole('idleMs', options.idleMs ?? FENCE_IDLE_MS, [0, MAX_FENCE_IDLE_MS])
  checkNames(names, context)
  const step = context.adapter.prune?.bind(context.adapter)
  let all = 0
  for (let empty = 0; step !== undefined;) {
    context.assertOpen()
    const call = boundedCall(context, '(all)', () => step(idleMs, names), { retry: false })
    const { pruned, more } = (await call).answer
    all += pruned
    if (!more) break
    empty = pruned === 0 ? empty + 1 : 0
    if (empty > MAX_EMPTY_STEPS)
      throw adapterFault('prune', '`more: true` again and again without pruning anything')
  }
  return all
}

function checkNames(names: unknown, { adapter }: Context): void {
  if (names === undefined) return
  if (!Array.isArray(names)) throw invalid('names must be an array of lock names')
  for (const name of names) checkName(name, adapter.capabilities)
}
