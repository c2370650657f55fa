const shape = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:(?:0|[1-9]\d{0,18})$/

/** Whether `text` has the form of an attempt id. What comes from outside is checked before it reaches a statement. */
export function isAttemptId(text: string): boolean {
  return shape.test(text)
}
