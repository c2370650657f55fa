/** The items in order, at most `size` of them at a time. */
export function* batchesOf<T>(items: readonly T[], size: number): Generator<readonly T[], void> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size)
}
