import { faultsOf, readHolder, writeHolder } from '@locks/sql'
import type { Faults, HoldInfo, Line, SessionDriver } from '@locks/sql'

// The smallest server there can be: it locks names for connections, in this process.

export const faults: Faults = faultsOf({
  adapter: 'a',
  server: 's',
  codesOf: () => ({}),
  adviceOn: () => undefined,
})

export class PlainLine implements Line {
  ended = false
  busySince: number | undefined
  idleLimitMs: number = Infinity
  /** Fails what is under way on it. */
  fail: ((error: Error) => void) | undefined
  /** Answers it after all. */
  answer: (() => void) | undefined
  #onEnd: (() => void) | undefined

  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }
  keepAlive(): void {}
  async close(): Promise<void> {
    this.destroy()
  }
  destroy(): void {
    this.ended = true
    this.fail?.(new Error('destroyed'))
  }
  breakDown(): void {
    this.ended = true
    this.#onEnd?.()
  }
}

interface Held extends HoldInfo {
  readonly line: PlainLine
  fence: number
}

export class PlainStore implements SessionDriver<PlainLine> {
  readonly made = new Set<string>()
  readonly held = new Map<string, Held>()
  readonly waiting: { hold: HoldInfo; line: PlainLine; grant: (got: boolean) => void }[] = []
  /** What each probe allowed. */
  readonly silences: number[] = []
  /** Steps that stay without an answer, or fail. */
  readonly silent = new Set<keyof SessionDriver<PlainLine>>()
  readonly failing = new Set<keyof SessionDriver<PlainLine>>()
  #keys = 0
  #fence = 0

  newKey(): string {
    return String(++this.#keys)
  }

  async tryLock(line: PlainLine, hold: HoldInfo, silenceMs: number) {
    await this.#step('tryLock', line)
    this.silences.push(silenceMs)
    const { name } = hold.request
    if (!this.made.has(name)) return 'missing'
    const by = this.held.get(name)
    if (by !== undefined) return { holder: readHolder(writeHolder(by.request), String(by.fence), null) }
    this.held.set(name, { key: hold.key, request: hold.request, line, fence: 0 })
    return 'locked'
  }

  async make(_line: PlainLine, { request }: HoldInfo): Promise<void> {
    this.made.add(request.name)
  }

  queue(line: PlainLine, hold: HoldInfo) {
    const locked = new Promise<boolean>((resolve, reject) => {
      line.fail = reject
      this.waiting.push({ hold, line, grant: resolve })
    })
    return { queued: Promise.resolve(), locked }
  }

  async mint(line: PlainLine, { request }: HoldInfo): Promise<bigint | undefined> {
    await this.#step('mint', line)
    const held = this.held.get(request.name)
    if (held?.line !== line) return undefined
    held.fence = ++this.#fence
    return BigInt(held.fence)
  }

  async probe(line: PlainLine, silenceMs: number): Promise<void> {
    await this.#step('probe', line)
    this.silences.push(silenceMs)
  }

  async free(line: PlainLine, { request }: HoldInfo): Promise<boolean> {
    await this.#step('free', line)
    const held = this.held.get(request.name)?.line === line
    this.forget(line)
    return held
  }

  async cancel(line: PlainLine): Promise<void> {
    await this.#step('cancel', line)
    const at = this.waiting.findIndex((one) => one.line === line)
    if (at >= 0) this.waiting.splice(at, 1)
    line.fail?.(new Error('cancelled'))
  }

  async isThere(line: PlainLine): Promise<boolean> {
    return !line.ended
  }

  async holderOf(name: string) {
    const by = this.held.get(name)
    const holder = by && readHolder(writeHolder(by.request), String(by.fence), null)
    return by && holder && { attemptId: by.request.attemptId, holder }
  }

  async evict(name: string): Promise<void> {
    this.held.get(name)?.line.breakDown()
  }

  saysEnded(error: unknown): boolean {
    return error instanceof Error && error.message === 'ended'
  }

  isWorthAnotherTry(): boolean {
    return false
  }

  /** What a server does when a connection is gone. */
  forget(line: PlainLine): void {
    for (const [name, held] of this.held) {
      if (held.line !== line) continue
      this.held.delete(name)
      const at = this.waiting.findIndex(({ hold }) => hold.request.name === name)
      const [next] = at < 0 ? [] : this.waiting.splice(at, 1)
      if (next === undefined) continue
      const { key, request } = next.hold
      this.held.set(name, { key, request, line: next.line, fence: 0 })
      next.grant(true)
    }
  }

  async #step(step: keyof SessionDriver<PlainLine>, line: PlainLine): Promise<void> {
    if (this.failing.has(step)) throw new Error(`${step} failed`)
    if (this.silent.has(step))
      await new Promise<void>((resolve, reject) => {
        line.answer = resolve
        line.fail = reject
      })
  }
}
