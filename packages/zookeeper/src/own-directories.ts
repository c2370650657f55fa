import { isRequestError, code } from './errors.ts'
import type { NodeData, Requests } from './requests.ts'

/** What this package writes into the directory of a lock: nodes without it belong to others and are never removed. */
export const MARK: Buffer = Buffer.from('@locks/zookeeper')

/** The directory, if this package created it. */
export async function ownDirectory(requests: Requests, path: string): Promise<NodeData | undefined> {
  const node = await requests.data(path)
  return node?.data?.equals(MARK) === true ? node : undefined
}

/** Removes a directory of this package if it is empty. Returns whether it did. */
export async function removeOwn(requests: Requests, path: string): Promise<boolean> {
  const own = await ownDirectory(requests, path)
  if (own === undefined) return false
  try {
    return await requests.remove(path, own.stat.version)
  } catch (error) {
    // In use, or written to by another program meanwhile.
    if (isRequestError(error, code.notEmpty, code.badVersion)) return false
    throw error
  }
}
