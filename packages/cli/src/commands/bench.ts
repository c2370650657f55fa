import { backendOf, backendOptions, showBackend } from '../backend.ts'
import { contended, uncontended } from '../measure.ts'
import type { Command } from '../command.ts'
import { showDuration } from '../duration.ts'
import { exitCodes } from '../exit-codes.ts'
import { table } from '../output.ts'

const clientCounts = [2, 256] as const

export const bench: Command = {
  usage: '[URL] [options]',
  about: `Measures one backend from this machine: how long it takes to acquire and release an uncontended lock, and
how fast a contended lock passes from client to client. All clients run in this process, so the backend may be able
to do more than one process can request.`,
  options: {
    time: { takes: 'TIME', help: 'length of each of the two measurements; default 3s' },
    clients: { takes: 'N', help: 'number of clients that compete for one lock; default 8' },
    ...backendOptions,
  },
  examples: ['locks bench redis://localhost', 'locks bench file:/var/lock/app --time 1s --clients 4 --json'],

  async run(args, invocation) {
    const [url] = args.named('[URL]')
    const backend = await backendOf(args, url)
    const timeMs = args.durationMs('time', ['1ms', '10m']) ?? 3_000
    const clients = args.integer('clients', clientCounts) ?? 8
    if (!args.flag('json')) invocation.note(`measuring ${showBackend(backend)} …`)
    const free = await uncontended(backend, timeMs, invocation)
    const wanted = await contended(backend, timeMs, clients, invocation)
    if (args.flag('json')) {
      invocation.printJson({ backend: showBackend(backend), uncontended: free, contended: wanted })
      return exitCodes.ok
    }
    const rows = [
      ['', 'per second', 'p50', 'p99', 'count'],
      ['acquire + release, uncontended', ...figures(free)],
      [`hand-off between ${clients} clients`, ...figures(wanted)],
    ]
    invocation.print(table(rows, (cell, _column, row) => (row === 0 ? invocation.paint('dim', cell) : cell)))
    return exitCodes.ok
  },
}

function figures({ perSecond, p50Ms, p99Ms, count }: Awaited<ReturnType<typeof uncontended>>): string[] {
  return [String(perSecond), showDuration(p50Ms), showDuration(p99Ms), String(count)]
}
