/** Does `work` once for all callers. After a failure the next call does it again. */
export function once<A extends readonly unknown[], T>(
  work: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  let doing: Promise<T> | undefined
  return (...args) => {
    doing ??= work(...args).catch((error: unknown) => {
      doing = undefined
      throw error
    })
    return doing
  }
}
