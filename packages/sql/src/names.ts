/** Quoted names of tables and functions, from what each adds to the name of the table of locks. */
export function quotedNames<Part extends string>(
  suffixes: Readonly<Record<Part, string>>,
  quoted: (suffix: string) => string,
): Readonly<Record<Part, string>> {
  const names: Record<Part, string> = { ...suffixes }
  for (const part in names) names[part] = quoted(names[part])
  return names
}
