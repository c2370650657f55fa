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
      summary: 'show the holder of a lock',
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
      summary: "end another client's hold",
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
      summary: 'create the tables that a store needs',
      load: async () => (await import('./commands/migrate.ts')).migrate,
    },
  ],
  [
    'prune',
    {
      summary: 'drop what the store keeps of idle names',
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
      summary: 'look for two holders while processes and connections fail',
      load: async () => (await import('./commands/torture.ts')).torture,
    },
  ],
  [
    'conformance',
    {
      summary: 'test an adapter with the whole suite',
      load: async () => (await import('./commands/conformance.ts')).conformance,
    },
  ],
])
