/** What `scripts/torture.mjs` asks for, from the environment. */
export interface Settings {
  readonly backends: readonly string[]
  readonly forMs: number
  readonly seed: number
  readonly processes: number
  readonly sideBySide: number
  /** Where the outcome of each backend is written, and the history of one that failed. */
  readonly folder: string
}

export function settings(): Settings {
  const value: unknown = JSON.parse(process.env['LOCKS_TORTURE'] ?? '{}')
  if (!isSettings(value)) throw new Error('LOCKS_TORTURE must be set by scripts/torture.mjs')
  return value
}

function isSettings(value: unknown): value is Settings {
  return typeof value === 'object' && value !== null && 'backends' in value && 'folder' in value
}
