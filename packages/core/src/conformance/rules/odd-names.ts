/**
 * Well-formed names that stores and encodings may confuse, in groups small enough to be held at the same time. The
 * names of a group all differ. All but the last few contain `unique`.
 */
export function oddNames(unique: string, maxBytes: number): readonly (readonly string[])[] {
  const after = (...ends: string[]): string[] => ends.map((end) => `${unique}${end}`)
  const filled = 'x'.repeat(Math.max(0, maxBytes - Buffer.byteLength(unique) - 1))
  const families = [
    // Case, accents, white space: differences that a collation ignores.
    [...after('lock', 'Lock', 'LOCK', 'löck', 'lock ', 'lock\t', 'lock\n', 'lock\u00a0'), ` ${unique}lock`],
    // One text in two Unicode forms, and letters that look or sort alike.
    after('\u00e9', 'e\u0301', 'e', '\ufb01', 'fi', '\u00df', 'ss', '\u0131', 'i'),
    after(
      '\ud83d\udd12',
      '\ud83d\udd13',
      '\ud83d\udd12\ufe0f',
      '\u200d',
      '\u200b',
      '\u05d0\u05d1',
      '\u05d1\u05d0',
      '\ufeff',
      '\uffff',
    ),
    // String terminators and encodings.
    after('', '\0', '\0\0', '\0a', '\\0', '%00', '\u0001', '\u007f', '\u0080'),
    after('%', '%25', '%2525', '_', '\\', '\\\\', '*', '?', '[a]'),
    // Paths, slots and separators.
    after('/a/b', '/a//b', '/a/b/', '/a/./b', 'a{b}c', 'a{}c', '{', ':a', ':'),
    // Quotes and languages.
    after("'", '"', '`', "''", "' OR 1=1 --", "'; DROP TABLE locks; --", '$1', '${a}', '"\r\nDEL a\r\n'),
    [`${unique}${filled}a`, `${unique}${filled}b`, `${unique}${filled}`],
    // These must stay exactly as they are.
    ['__proto__', 'constructor', 'toString', '.', '..', '/', '0', 'null'],
  ]
  return families.map((family) => family.filter((name) => Buffer.byteLength(name) <= maxBytes))
}
