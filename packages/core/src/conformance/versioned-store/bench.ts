import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Versioned, VersionedStore } from '../../adapter/versioned-store.ts'
import { CaseRun } from '../case-run.ts'
import { startChild } from '../child-process.ts'
import { stallMeter } from '../time/stall-meter.ts'
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

/** What a rule of the contract works with. */
export class Bench extends CaseRun {
  readonly #subject: StoreSubject

  constructor(subject: StoreSubject) {
    super()
    this.#subject = subject
  }

  /** An independent client of the store. */
  open(): VersionedStore {
    const store = this.#subject.open()
    this.onEnd(() => store.close())
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
    const file = join(await this.directory(), 'versions')
    await writeFile(file, '')
    const child = await startChild()
    this.onEnd(() => child.kill())
    return {
      count(times) {
        const task: CountTask = { ...module, key, times, file }
        return child.call('run', { module: program, name: 'count', args: task })
      },
      acknowledged: async () => (await readFile(file, 'utf8')).split('\n').filter(Boolean).map(BigInt),
      kill: () => child.kill(),
    }
  }
  protected override measure(): void {
    super.measure()
    if (stallMeter.watchesServers) return
    const store = this.open()
    if (store.scope !== 'process') this.onEnd(stallMeter.probe(() => store.get('contract:probe')))
  }
}
