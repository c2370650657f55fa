type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

const codes: Record<Style, readonly [number, number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
}

export type Paint = (style: Style, text: string) => string

/** Colour on a terminal that allows it (NO_COLOR, TERM=dumb), otherwise plain text. */
export function painter(stream: NodeJS.WriteStream): Paint {
  const { NO_COLOR, TERM } = process.env
  const coloured = stream.isTTY && (NO_COLOR ?? '') === '' && TERM !== 'dumb'
  return (style, text) => {
    const [on, off] = codes[style]
    return coloured ? `\x1b[${on}m${text}\x1b[${off}m` : text
  }
}

/** Columns of equal width. `paint` runs after the width was measured, so that colour codes do not count. */
export function table(
  rows: readonly (readonly string[])[],
  paint: (cell: string, column: number, row: number) => string = (cell) => cell,
): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((cells, row) =>
    cells
      .map((cell, column) => paint(cell, column, row) + ' '.repeat((widths[column] ?? 0) - cell.length))
      .join('  ')
      .trimEnd(),
  )
  return lines.join('\n')
}

/** Fences become strings, since they may exceed a double. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_key, field: unknown) => (typeof field === 'bigint' ? field.toString() : field),
    indent,
  )
}

/** Untrusted text on one line, without terminal control characters. */
export function printable(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.codePointAt(0)?.toString(16).padStart(4, '0')}`,
  )
}
