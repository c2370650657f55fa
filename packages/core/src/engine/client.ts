import type { AdapterFactory } from '../adapter/spi.ts'
import { boundedCall } from './deadlines.ts'
import { Context, Events } from './context.ts'
import type { ContextOptions } from './context.ts'
import { LateReleases } from './late-release.ts'
import { NameQueues } from './name-queue.ts'
import { outsideScopes } from './re-entry.ts'

/** The engine of one client. Programs see it as `Locks`. */
export class Client {
  readonly context: Context
  readonly queues: NameQueues
  readonly lateReleases: LateReleases
  #closing: Promise<void> | undefined

  constructor(factory: AdapterFactory, options: Omit<ContextOptions, 'events'>) {
    this.context = new Context(factory, { ...options, events: new Events(outsideScopes) })
    this.queues = new NameQueues(this.context)
    this.lateReleases = new LateReleases(this.context)
  }

  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    let begin: (closed: Promise<void>) => void = () => undefined
    this.#closing = new Promise((resolve) => (begin = resolve))
    this.context.phase = 'closing'
    // After that: closing calls listeners of the program, and they may call `close` again.
    begin(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    const { context } = this
    this.queues.close()
    for (const hold of [...context.holds.values()])
      void context.inBackground(hold.close(context.closedError(hold.grant.name)))
    this.lateReleases.finish()
    await context.backgroundDone()
    context.phase = 'closed'
    try {
      await boundedCall(context, '(all)', () => context.adapter.close(), { retry: false })
    } finally {
      // A call of the program that is still under way must end too.
      if (context.timers.size === 0) context.timers.stop()
      context.meter?.stop()
    }
  }
}
