import type { Bench } from './bench.ts'

/** One promise of the contract, and the program that tries to break it. */
export interface StoreRule {
  readonly id: string
  readonly title: string
  readonly needs?: 'drop' | 'watch' | 'values' | 'processes'
  /** How long it may take, before scaling. Default: 10 s. */
  readonly timeoutMs?: number
  run(bench: Bench): Promise<void>
}
