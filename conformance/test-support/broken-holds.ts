import type { Locks } from '@locks/core'
import { expect } from 'vitest'

/** A broken hold ends as lost, also when its lock was taken and released by another meanwhile. */
export async function expectBrokenHoldLost(holder: Locks, other: Locks, lock: string): Promise<void> {
  const passItOn = async (): Promise<void> => {
    expect(await other.lock(lock).break()).not.toBeNull()
    await other.with(lock, () => undefined)
    expect(await other.inspect(lock)).toMatchObject({ held: false })
  }
  const lease = await holder.lock(lock).acquire()
  await passItOn()
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await expect(holder.with(lock, passItOn)).rejects.toMatchObject({ code: 'LOCK_LOST' })
}
