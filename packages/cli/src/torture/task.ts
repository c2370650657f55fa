import type { Locks } from '@locks/core'
import type { Recorder } from '@locks/core/conformance'
import type { WorkerMessage, WorkerOrder } from './protocol.ts'
import type { Random } from './random.ts'

/** What one task of a worker works with. */
export interface Task {
  readonly locks: Locks
  readonly recorder: Recorder
  readonly order: WorkerOrder
  readonly task: string
  readonly random: Random
  /** Aborts when the run is over. */
  readonly stop: AbortSignal
  /** Called as soon as a lock is granted. */
  granted(): void
  write(name: string, fence: bigint): Promise<boolean>
  tell(message: WorkerMessage): void
}
