import type { Command } from '../command.ts'

interface Entry {
  readonly summary: string
  readonly load: () => Promise<Command>
}

export const commands: ReadonlyMap<string, Entry> = new Map<string, Entry>([
  [
    'run',
    {
      summary: 'run a command under a lock',
      load: async () => (await import('./run.ts')).run,
    },
  ],
  [
    'inspect',
    {
      summary: 'show the holder of a lock',
      load: async () => (await import('./inspect.ts')).inspect,
    },
  ],
  ['ls', { summary: 'list the locks that are held', load: async () => (await import('./ls.ts')).ls }],
  [
    'break',
    {
      summary: "end another client's hold",
      load: async () => (await import('./break.ts')).breakHold,
    },
  ],
  [
    'doctor',
    {
      summary: 'check a backend and its settings',
      load: async () => (await import('./doctor.ts')).doctor,
    },
  ],
  [
    'migrate',
    {
      summary: 'create the tables that a store needs',
      load: async () => (await import('./migrate.ts')).migrate,
    },
  ],
  [
    'prune',
    {
      summary: 'drop what the store keeps of idle names',
      load: async () => (await import('./prune.ts')).prune,
    },
  ],
  [
    'bench',
    {
      summary: 'measure a backend',
      load: async () => (await import('./bench.ts')).bench,
    },
  ],
  [
    'torture',
    {
      summary: 'look for two holders while processes and connections fail',
      load: async () => (await import('./torture.ts')).torture,
    },
  ],
  [
    'conformance',
    {
      summary: 'test an adapter with the whole suite',
      load: async () => (await import('./conformance.ts')).conformance,
    },
  ],
])
