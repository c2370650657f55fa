import { startChild } from '@locks/core/conformance'
import type { Harness } from '@locks/core/conformance'
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Versioned, VersionedStore } from '../versioned-store.ts'
import type { CountTask } from './counter.ts'
import type { StoreSubject } from './subject.ts'

/** A child process that adds one to a key again and again, by compare-and-set. */
export interface Counter {
  /** Resolves after so many puts; rejects if the process fails or ends before. */
  count(times: number): Promise<unknown>
  /** The versions of the puts that were acknowledged so far. */
  acknowledged(): Promise<readonly bigint[]>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
}

const program = new URL('./counter.js', import.meta.url).href

/** What a rule of the contract works with, beside the harness of the suite, which ends everything made here. */
export class Bench {
  readonly harness: Harness
  readonly #subject: StoreSubject

  constructor(subject: StoreSubject, harness: Harness) {
    this.#subject = subject
    this.harness = harness
  }

  /** An independent client of the store. */
  open(): VersionedStore {
    const store = this.#subject.open()
    this.harness.onEnd(() => store.close())
    return store
  }

  /** A key that nothing else uses. */
  key(hint = 'key'): string {
    return `contract:${hint}:${randomUUID()}`
  }

  /** Puts, and fails the rule unless that succeeds. */
  async put(store: VersionedStore, key: string, value: string, expected?: bigint): Promise<bigint> {
    const answer = await store.put(key, value, expected, true)
    assert.ok('version' in answer, `the put of ${value} over version ${expected} was refused`)
    return answer.version
  }

  /** Puts, and fails the rule unless that is refused. Returns what is there instead. */
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
    await this.#subject.drop?.(key)
  }

  /** A child process that counts in `key`. */
  async counter(key: string): Promise<Counter> {
    const { module } = this.#subject
    assert.ok(module, 'this rule needs a module')
    const file = join(await this.harness.directory(), 'versions')
    await writeFile(file, '')
    const child = await startChild()
    this.harness.onEnd(() => child.kill())
    return {
      count(times) {
        const task: CountTask = { ...module, key, times, file }
        return child.call('run', { module: program, name: 'count', args: task })
      },
      acknowledged: async () => (await readFile(file, 'utf8')).split('\n').filter(Boolean).map(BigInt),
      kill: () => child.kill(),
    }
  }
}
