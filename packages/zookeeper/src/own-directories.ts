import { isRequestError, code } from './errors.ts'
import type { NodeData, Requests } from './requests.ts'

/** What this package writes into the directory of a lock: nodes without it belong to others and are never removed. */
export const MARK: Buffer = Buffer.from('@locks/zookeeper')

/** Whether this package created the node. */
export function isOwn({ data }: NodeData): boolean {
  return data?.equals(MARK) === true
}

/**
 * Whether a node may be the directory of a free lock that a version without marks created. Other programs may have
 * such nodes too, so they stay.
 */
export function isUnmarked({ data, stat }: NodeData): boolean {
  return (data?.length ?? 0) === 0 && stat.numChildren === 0 && stat.version === 0 && stat.cversion > 0
}

/** Removes a directory of this package if it is empty. Returns whether it did. */
export async function removeOwn(requests: Requests, path: string): Promise<boolean> {
  const node = await requests.data(path)
  if (node === undefined || !isOwn(node)) return false
  try {
    return await requests.remove(path, node.stat.version)
  } catch (error) {
    // In use, or written to by another program meanwhile.
    if (isRequestError(error, code.notEmpty, code.badVersion)) return false
    throw error
  }
}
