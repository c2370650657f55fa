import { writeHolder } from '@locks/core/adapter'
import { Connection, holderFrom, sqlErrors } from '@locks/sql'
import type { HoldInfo, SessionDriver, SqlErrors } from '@locks/sql'

// The smallest possible server: it locks names for connections, in this process.

export const errors: SqlErrors = sqlErrors({
  adapter: 'a',
  server: 's',
  codesOf: () => ({}),
  advice: new Map(),
})

export class PlainConnection extends Connection {
  /** Fails the statement under way. */
  fail: ((error: Error) => void) | undefined
  /** Lets it succeed. */
  answer: (() => void) | undefined
  protected override readonly socket = undefined

  constructor() {
    super(errors)
  }

  override async close(): Promise<void> {
    this.destroy()
  }
  breakDown(): void {
    this.over()
  }
  protected override async end(): Promise<void> {}
  protected override cut(): void {
    this.fail?.(new Error('destroyed'))
  }
}

interface Held extends HoldInfo {
  readonly connection: PlainConnection
  fence: number
}

export class PlainStore implements SessionDriver<PlainConnection> {
  readonly made = new Set<string>()
  readonly held = new Map<string, Held>()
  readonly waiting: { hold: HoldInfo; connection: PlainConnection; grant: (got: boolean) => void }[] = []
  /** The silence that each probe allowed. */
  readonly silences: number[] = []
  /** Steps that get no answer, or fail. */
  readonly silent = new Set<keyof SessionDriver<PlainConnection>>()
  readonly failing = new Set<keyof SessionDriver<PlainConnection>>()
  #keys = 0
  #fence = 0

  newKey(): string {
    return String(++this.#keys)
  }

  async tryLock(connection: PlainConnection, hold: HoldInfo, silenceMs: number) {
    await this.#step('tryLock', connection)
    this.silences.push(silenceMs)
    const { name } = hold.request
    if (!this.made.has(name)) return 'missing'
    const by = this.held.get(name)
    if (by !== undefined) return { holder: holderFrom(writeHolder(by.request), String(by.fence), null) }
    this.held.set(name, { key: hold.key, request: hold.request, connection, fence: 0 })
    return 'locked'
  }

  async make(_line: PlainConnection, { request }: HoldInfo): Promise<void> {
    this.made.add(request.name)
  }

  queue(connection: PlainConnection, hold: HoldInfo) {
    const locked = new Promise<boolean>((resolve, reject) => {
      connection.fail = reject
      this.waiting.push({ hold, connection, grant: resolve })
    })
    return { queued: Promise.resolve(), locked }
  }

  async mint(connection: PlainConnection, { request }: HoldInfo): Promise<bigint | undefined> {
    await this.#step('mint', connection)
    const held = this.held.get(request.name)
    if (held?.connection !== connection) return undefined
    held.fence = ++this.#fence
    return BigInt(held.fence)
  }

  async probe(connection: PlainConnection, silenceMs: number): Promise<void> {
    await this.#step('probe', connection)
    this.silences.push(silenceMs)
  }

  async free(connection: PlainConnection, { request }: HoldInfo): Promise<boolean> {
    await this.#step('free', connection)
    const held = this.held.get(request.name)?.connection === connection
    this.forget(connection)
    return held
  }

  async cancel(connection: PlainConnection): Promise<void> {
    await this.#step('cancel', connection)
    const at = this.waiting.findIndex((one) => one.connection === connection)
    if (at >= 0) this.waiting.splice(at, 1)
    connection.fail?.(new Error('cancelled'))
  }

  async isThere(connection: PlainConnection): Promise<boolean> {
    return !connection.ended
  }

  async holderOf(name: string) {
    const by = this.held.get(name)
    const holder = by && holderFrom(writeHolder(by.request), String(by.fence), null)
    return by && holder && { attemptId: by.request.attemptId, holder }
  }

  async list(limit: number) {
    return [...this.held.keys()].slice(0, limit).map((name) => ({ name, held: true }))
  }

  async breakHold(name: string, attemptId: string): Promise<boolean> {
    const held = this.held.get(name)
    if (held?.request.attemptId !== attemptId) return false
    held.connection.breakDown()
    return true
  }

  saysEnded(error: unknown): boolean {
    return error instanceof Error && error.message === 'ended'
  }

  isWorthAnotherTry(): boolean {
    return false
  }

  /** Frees what a connection held, as a server does when it is gone. */
  forget(connection: PlainConnection): void {
    for (const [name, held] of this.held) {
      if (held.connection !== connection) continue
      this.held.delete(name)
      const at = this.waiting.findIndex(({ hold }) => hold.request.name === name)
      const [next] = at < 0 ? [] : this.waiting.splice(at, 1)
      if (next === undefined) continue
      const { key, request } = next.hold
      this.held.set(name, { key, request, connection: next.connection, fence: 0 })
      next.grant(true)
    }
  }

  async #step(step: keyof SessionDriver<PlainConnection>, connection: PlainConnection): Promise<void> {
    if (this.failing.has(step)) throw new Error(`${step} failed`)
    if (this.silent.has(step))
      await new Promise<void>((resolve, reject) => {
        connection.answer = resolve
        connection.fail = reject
      })
  }
}
