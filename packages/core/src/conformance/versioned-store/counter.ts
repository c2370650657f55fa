import { appendFileSync } from 'node:fs'
import type { StoreFactory } from '../../adapter/versioned-store.ts'
import { resolveModule } from '../../config/import.ts'
import type { StoreModule } from './subject.ts'

export interface CountTask extends StoreModule {
  readonly key: string
  readonly times: number
  /** Gets a line with the version of each put. */
  readonly file: string
}

/** For a child process: adds one to a key again and again, by compare-and-set. */
export async function count({ specifier, options, key, times, file }: CountTask): Promise<void> {
  const module: unknown = await import(resolveModule(specifier))
  if (!hasStoreFrom(module)) throw new Error(`${specifier} does not export a function storeFrom`)
  const store = module.storeFrom(options)()
  for (let done = 0; done < times;) {
    const current = await store.get(key)
    const value = `${countIn(current?.value) + 1} by ${process.pid}`
    const answer = await store.put(key, value, current?.version, done % 2 === 0)
    if (!('version' in answer)) continue
    done += 1
    // Before the next put, so that at most one is not acknowledged when the process is killed.
    appendFileSync(file, `${answer.version}\n`)
  }
  await store.close()
}

/** The number in a value that `count` wrote. */
export function countIn(value: string | undefined): number {
  return Number(value?.split(' ')[0] ?? 0)
}

function hasStoreFrom(
  module: unknown,
): module is { storeFrom(options: Readonly<Record<string, unknown>>): StoreFactory } {
  return typeof module === 'object' && module !== null && 'storeFrom' in module
}
