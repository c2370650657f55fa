import type { Program, ServerPlan } from './programs/program.ts'
import type { Server, Source } from './service.ts'

/** Available software, and how to run it. */
export interface Supply {
  readonly source: Source
  readonly program: Program
  /** `ports` are all the ports the service will listen on. */
  open(ports: readonly number[], env: Readonly<Record<string, string>>): Promise<Launcher>
}

/** Runs the servers of one service. */
export interface Launcher {
  /** Resolves when the server answers. */
  launch(plan: ServerPlan): Promise<Server>
  /** The end of what each of its servers wrote. */
  log(): Promise<string>
  /** Ends everything that was launched, also what failed half-way, and leaves nothing behind. */
  close(): Promise<void>
}
