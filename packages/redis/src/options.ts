import { settleOptions, urlOf } from '@locks/core/adapter'
import type { Settled } from '@locks/core/adapter'
import { declared } from './option-table.ts'
import type { RedisWarning } from './option-table.ts'
import { parseUrl } from './url.ts'

/** The default of `fenceIdleMs`, unless names are shared with Redisson. */
const FENCE_IDLE_MS = 86_400_000

/** Options with every default filled in, and the URL as what it says. */
export interface RedisSettings extends Omit<Settled<typeof declared.options>, 'url'> {
  readonly fenceIdleMs: number
  readonly onWarning: (warning: RedisWarning) => void
}

/** Checks what a program or a config gave. */
export function settle(options: unknown): RedisSettings {
  const given = urlOf(declared, options)
  const parsed = given === undefined ? undefined : parseUrl(given)
  const { url: _, ...read } = settleOptions(declared, options, parsed?.extra)
  return {
    ...read,
    ...parsed?.place,
    fenceIdleMs: read.fenceIdleMs ?? (read.prefix === '' ? 0 : FENCE_IDLE_MS),
    onWarning: read.onWarning ?? emitWarning,
  }
}

function emitWarning({ code, message }: RedisWarning): void {
  process.emitWarning(message, { type: 'LocksWarning', code })
}
