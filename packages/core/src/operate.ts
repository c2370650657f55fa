import { adapterFault } from './adapter-fault.ts'
import type { Client } from './client.ts'
import type { Finding, Holder, LockState } from './spi.ts'
import { callStore } from './store-call.ts'
import { FENCE_IDLE_MS, MAX_FENCE_IDLE_MS } from './upkeep.ts'
import { checkInteger, checkName, invalid, unsupported } from './validate.ts'

// What operators do to a store, beside what programs do with a lock.

export async function breakHold(
  client: Client,
  { name, held, holder }: LockState,
  fence: bigint | undefined,
): Promise<Holder | null> {
  const breakIt = client.adapter.break?.bind(client.adapter)
  if (breakIt === undefined) throw unsupported('break')
  if (!held || holder === undefined) return null
  if (fence !== undefined && holder.fence !== fence) return null
  // It may have been closed since it looked.
  client.assertOpen()
  const { answer, tries } = await callStore(client, name, () => breakIt(name, holder), { retry: true })
  // An earlier try, whose reply was lost, may be why it is over.
  return answer === 'broken' || tries > 1 ? holder : null
}

export async function listHeld(client: Client, limit: number): Promise<readonly LockState[]> {
  client.assertOpen()
  checkInteger('limit', limit)
  const list = client.adapter.list?.bind(client.adapter)
  if (list === undefined) throw unsupported('list')
  return (await callStore(client, '(all)', () => list(limit), { retry: false })).answer
}

export async function diagnose(client: Client): Promise<readonly Finding[]> {
  client.assertOpen()
  const look = client.adapter.diagnose?.bind(client.adapter)
  if (look === undefined) return []
  return (await callStore(client, '(all)', look, { retry: false })).answer
}

/** More steps without a find than any store needs to look at all it has. */
const MAX_EMPTY_STEPS = 1_000_000

export interface PruneOptions {
  /** Names that were not granted for so long. Default: a day. */
  readonly idleMs?: number
  /** These alone. Default: all names. */
  readonly names?: readonly string[]
}

export async function prune(
  client: Client,
  { idleMs = FENCE_IDLE_MS, names }: PruneOptions,
): Promise<number> {
  client.assertOpen()
  if (typeof idleMs !== 'number' || !Number.isInteger(idleMs) || idleMs < 0 || idleMs > MAX_FENCE_IDLE_MS)
    throw invalid(`idleMs must be a whole number from 0 to ${MAX_FENCE_IDLE_MS}`)
  checkNames(names, client)
  const step = client.adapter.prune?.bind(client.adapter)
  let all = 0
  for (let empty = 0; step !== undefined;) {
    client.assertOpen()
    const { pruned, more } = (await callStore(client, '(all)', () => step(idleMs, names), { retry: false }))
      .answer
    all += pruned
    if (!more) break
    empty = pruned === 0 ? empty + 1 : 0
    if (empty > MAX_EMPTY_STEPS) throw adapterFault('prune', 'more to prune, without end')
  }
  return all
}

function checkNames(names: unknown, { adapter }: Client): void {
  if (names === undefined) return
  if (!Array.isArray(names)) throw invalid('names must be an array of lock names')
  for (const name of names) checkName(name, adapter.capabilities)
}
