import type { Arguments, Reads } from './arguments.ts'
import type { Session } from './session.ts'

/** One command. Each lives in a file of its own, which is loaded only when it is called. */
export interface Command extends Reads {
  /** What follows `locks NAME`. */
  readonly usage: string
  /** What it does, in whole sentences. */
  readonly about: string
  readonly examples: readonly string[]
  /** Answers the exit code. */
  run(args: Arguments, session: Session): Promise<number>
}

interface Entry {
  readonly summary: string
  readonly load: () => Promise<Command>
}

export const commands: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  [
    'run',
    {
      summary: 'run a command under a lock',
      load: async () => (await import('./commands/run.ts')).run,
    },
  ],
  [
    'inspect',
    {
      summary: 'show who holds a lock',
      load: async () => (await import('./commands/inspect.ts')).inspect,
    },
  ],
  [
    'ls',
    { summary: 'list the locks that are held', load: async () => (await import('./commands/ls.ts')).ls },
  ],
  [
    'break',
    {
      summary: "end somebody else's hold",
      load: async () => (await import('./commands/break.ts')).breakHold,
    },
  ],
  [
    'doctor',
    {
      summary: 'check a backend and its settings',
      load: async () => (await import('./commands/doctor.ts')).doctor,
    },
  ],
  [
    'migrate',
    {
      summary: 'make the tables that a store needs',
      load: async () => (await import('./commands/migrate.ts')).migrate,
    },
  ],
  [
    'prune',
    {
      summary: 'drop what is kept of names that are not used any more',
      load: async () => (await import('./commands/prune.ts')).prune,
    },
  ],
  [
    'bench',
    {
      summary: 'measure a backend',
      load: async () => (await import('./commands/bench.ts')).bench,
    },
  ],
  [
    'torture',
    {
      summary: 'look for two holders while everything fails',
      load: async () => (await import('./commands/torture.ts')).torture,
    },
  ],
  [
    'conformance',
    {
      summary: 'prove an adapter by the whole suite',
      load: async () => (await import('./commands/conformance.ts')).conformance,
    },
  ],
])
