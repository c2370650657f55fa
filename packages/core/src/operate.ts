import type { Client } from './client.ts'
import type { Finding, Holder, LockState } from './spi.ts'
import { callStore } from './store-call.ts'
import { checkInteger, unsupported } from './validate.ts'

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
