/** How much a run is about: `quick` is a sample in minutes, `all` takes as long as it takes. */
export type Scope = 'quick' | 'usual' | 'all'

export function scope(): Scope {
  const named = process.env['LOCKS_TEST_SCOPE']
  return named === 'quick' || named === 'all' ? named : 'usual'
}

/** How often a test repeats itself: `npm test -- --all` takes its time. */
export function atLength(usual: number, all: number): number {
  return scope() === 'all' ? all : usual
}

/**
 * Which backends a run is about. `LOCKS_ONLY=redis,cas-file` names whole adapters or single backends
 * of theirs; unset, every backend counts.
 */
export function isSelected(backend: string): boolean {
  const only = selection()
  return only === undefined || only.some((name) => name === backend || backend.startsWith(`${name}-`))
}

/** Whether some backend of this adapter is selected. */
export function isAdapterSelected(adapter: string): boolean {
  const only = selection()
  return only === undefined || only.some((name) => name === adapter || name.startsWith(`${adapter}-`))
}

/** Throws when a name stands for no adapter: a run of nothing must not look like a success. */
export function checkSelection(adapters: readonly string[]): void {
  const unknown = selection()?.find(
    (name) => !adapters.some((adapter) => name === adapter || name.startsWith(`${adapter}-`)),
  )
  if (unknown !== undefined)
    throw new Error(
      `--only: no backend is called ${JSON.stringify(unknown)}; adapters: ${adapters.join(', ')}`,
    )
}

function selection(): readonly string[] | undefined {
  const names = (process.env['LOCKS_ONLY'] ?? '').split(',').map((name) => name.trim())
  const given = names.filter((name) => name !== '')
  return given.length === 0 ? undefined : given
}
