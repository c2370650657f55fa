import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { StoreFactory, VersionedStore } from '../versioned-store.ts'
import type { WorkerNews, WorkerTask } from './worker-process.ts'

function tell(news: WorkerNews): Promise<void> {
  return new Promise((resolve) => {
    // Before the next put, so that one is unacknowledged at most when the process is killed.
    if (process.send === undefined) resolve()
    else process.send(news, undefined, undefined, () => resolve())
  })
}

async function openStore({ specifier, options }: WorkerTask): Promise<VersionedStore> {
  const module: unknown = await import(isAbsolute(specifier) ? pathToFileURL(specifier).href : specifier)
  if (!hasStoreFrom(module)) throw new Error(`${specifier} exports no function storeFrom`)
  return module.storeFrom(options)()
}

function hasStoreFrom(
  module: unknown,
): module is { storeFrom(options: Readonly<Record<string, unknown>>): StoreFactory } {
  return typeof module === 'object' && module !== null && 'storeFrom' in module
}

async function count(store: VersionedStore, key: string, times: number): Promise<void> {
  for (let done = 0; done < times;) {
    const current = await store.get(key)
    const value = `${Number(current?.value.split(' ')[0] ?? 0) + 1} by ${process.pid}`
    const answer = await store.put(key, value, current?.version, done % 2 === 0)
    if (!('version' in answer)) continue
    done += 1
    await tell({ version: answer.version })
  }
}

async function failing(work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    await tell({ failure: error instanceof Error ? error.message : String(error) })
  }
}

process.once('message', (task: WorkerTask) => {
  const ready = openStore(task).then(async (store) => {
    process.on('message', (times: number) => {
      void failing(count(store, task.key, times).then(() => tell({ state: 'done' })))
    })
    await tell({ state: 'ready' })
  })
  void failing(ready)
})
// A worker whose parent was killed must not go on.
process.on('disconnect', () => process.exit(1))
