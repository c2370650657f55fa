import type { Arguments, Reads } from './arguments.ts'
import type { Invocation } from './invocation.ts'

/** One command. Its file is loaded only when it is invoked. */
export interface Command extends Reads {
  /** What follows `locks NAME`. */
  readonly usage: string
  /** What it does, in full sentences. */
  readonly about: string
  readonly examples: readonly string[]
  /** Returns the exit code. */
  run(args: Arguments, invocation: Invocation): Promise<number>
}
