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

/** Colour on a terminal that may have it (NO_COLOR, TERM=dumb), else plain text. */
export function painter(stream: NodeJS.WriteStream): Paint {
  const { NO_COLOR, TERM } = process.env
  const coloured = stream.isTTY && (NO_COLOR ?? '') === '' && TERM !== 'dumb'
  return (style, text) => {
    const [on, off] = codes[style]
    return coloured ? `\x1b[${on}m${text}\x1b[${off}m` : text
  }
}

/** Columns of equal width; `paint` after the width was measured, so that colour takes no room. */
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

/** JSON as a shell wants it: fences as text, since they may outgrow a double. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_key, field: unknown) => (typeof field === 'bigint' ? field.toString() : field),
    indent,
  )
}

/** Text of others on one line, without what could steer a terminal. */
export function printable(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${char.codePointAt(0)?.toString(16).padStart(4, '0')}`,
  )
}
