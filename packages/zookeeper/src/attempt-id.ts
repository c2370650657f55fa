import { createHash } from 'node:crypto'

/** What is shown of an attempt whose owner was not named. The attempt id cannot be computed from it. */
export function defaultOwner(attemptId: string): string {
  const digest = createHash('sha256').update(attemptId).digest('hex')
  return `${attemptId.slice(0, 8)}-${digest.slice(0, 12)}`
}
