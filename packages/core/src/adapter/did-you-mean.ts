/** What to say about a key that does not exist. */
export function unknownKey(given: string, known: readonly string[], where = ''): string {
  return `unknown key ${JSON.stringify(given)}${where}; known: ${known.join(', ')}${didYouMean(given, known)}`
}

/** For the end of a message: suggests the word of `known` that is close to `given`, if any. */
export function didYouMean(given: string, known: readonly string[]): string {
  const most = Math.min(2, Math.ceil(given.length / 3))
  const [best] = known
    .map((word) => ({ word, distance: distanceOf(given, word) }))
    .filter(({ distance }) => distance <= most)
    .toSorted((a, b) => a.distance - b.distance)
  return best === undefined ? '' : `; did you mean ${best.word}?`
}

/** The Damerau–Levenshtein distance. */
function distanceOf(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let n = 1; n <= a.length; n += 1) {
    const next = [n]
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[n - 1] === b[column - 1]
      const swapped = a[n - 1] === b[column - 2] && a[n - 2] === b[column - 1]
      next[column] = Math.min(
        at(row, column) + 1,
        at(next, column - 1) + 1,
        at(row, column - 1) + (same ? 0 : 1),
        swapped ? at(before, column - 2) + 1 : Infinity,
      )
    }
    before = row
    row = next
  }
  return at(row, b.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity
}
