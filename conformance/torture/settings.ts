/** What `scripts/torture.mjs` asks for, from the environment. */
export interface Settings {
  readonly backends: readonly string[]
  readonly forMs: number
  readonly seed: number
  readonly processes: number
  readonly sideBySide: number
  readonly file: string
}

export function settings(): Settings {
  const value: unknown = JSON.parse(process.env['LOCKS_TORTURE'] ?? '{}')
  if (!isSettings(value)) throw new Error('LOCKS_TORTURE must be set by scripts/torture.mjs')
  return value
}

function isSettings(value: unknown): value is Settings {
  return typeof value === 'object' && value !== null && 'backends' in value && 'file' in value
}
