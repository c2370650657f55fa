import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Versioned, VersionedStore } from '../versioned-store.ts'
import type { StoreSubject } from './index.ts'
import { startWorker } from './worker-process.ts'
import type { Worker } from './worker-process.ts'

/** What a rule of the contract works with. Everything made by it is ended when the rule ends. */
export class Bench {
  readonly subject: StoreSubject
  readonly #cleanups: (() => Promise<unknown>)[] = []

  constructor(subject: StoreSubject) {
    this.subject = subject
  }

  /** An independent client of the store. */
  open(): VersionedStore {
    const store = this.subject.open()
    this.#cleanups.push(() => store.close())
    return store
  }

  /** A key nobody else uses. */
  key(hint = 'key'): string {
    return `contract:${hint}:${randomUUID()}`
  }

  /** Puts and fails the rule unless that succeeds. */
  async put(store: VersionedStore, key: string, value: string, expected?: bigint): Promise<bigint> {
    const answer = await store.put(key, value, expected, true)
    assert.ok('version' in answer, `the put of ${value} over version ${expected} was refused`)
    return answer.version
  }

  /** Puts and fails the rule unless that is refused; answers what is there instead. */
  async refused(
    store: VersionedStore,
    key: string,
    value: string,
    expected?: bigint,
  ): Promise<Versioned | undefined> {
    const answer = await store.put(key, value, expected, true)
    assert.ok('conflict' in answer, `the put of ${value} over version ${expected} should have been refused`)
    return answer.current
  }

  async drop(key: string): Promise<void> {
    await this.subject.drop?.(key)
  }

  /** A process of its own that counts in `key` by compare-and-set. */
  async worker(key: string): Promise<Worker> {
    assert.ok(this.subject.module, 'this rule needs a module')
    const worker = await startWorker({ key, ...this.subject.module })
    this.#cleanups.push(() => worker.kill())
    return worker
  }

  async run(body: (bench: Bench) => Promise<void>): Promise<void> {
    try {
      await body(this)
    } finally {
      for (const cleanup of this.#cleanups.reverse()) await cleanup()
    }
  }
}
