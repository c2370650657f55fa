import { createHash } from 'node:crypto'

const shape = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:(?:0|[1-9]\d{0,18})$/

/** Whether `text` has the form of an attempt id. What stands in a store may have been written by anybody. */
export function isAttemptId(text: unknown): text is string {
  return typeof text === 'string' && shape.test(text)
}

/** What is shown of an attempt whose owner was not named. The attempt id cannot be computed from it. */
export function defaultOwner(attemptId: string): string {
  const digest = createHash('sha256').update(attemptId).digest('hex')
  return `${attemptId.slice(0, 8)}-${digest.slice(0, 12)}`
}
