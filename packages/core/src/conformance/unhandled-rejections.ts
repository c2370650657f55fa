import { isLockError } from '../adapter/lock-error.ts'

/** Listens for the unhandled rejections of one run of a rule. */
export interface RejectionWatch {
  /**
   * Stops listening and returns what was rejected. After a failure, without those about the run's own names: a rule
   * that stopped early does not await what it began.
   */
  end(outcome: { readonly failed: boolean }): readonly unknown[]
}

interface Watcher {
  readonly names: ReadonlySet<string>
  readonly own: unknown[]
  readonly shared: unknown[]
}

const watchers = new Set<Watcher>()

/** Names of runs that failed: their remaining work may still be rejected. */
const failedNames = new Set<string>()

/**
 * Node reports unhandled rejections per process, and several rules run concurrently. An error that names a lock belongs
 * to the run that uses the name; any other may belong to each of them.
 */
export function watchRejections(names: ReadonlySet<string>): RejectionWatch {
  const watcher: Watcher = { names, own: [], shared: [] }
  if (watchers.size === 0) process.on('unhandledRejection', onRejection)
  watchers.add(watcher)
  return {
    end({ failed }) {
      watchers.delete(watcher)
      if (watchers.size === 0) process.off('unhandledRejection', onRejection)
      if (!failed) return [...watcher.own, ...watcher.shared]
      for (const name of names) failedNames.add(name)
      return watcher.shared
    },
  }
}

function onRejection(reason: unknown): void {
  const name = isLockError(reason) ? reason.lock : undefined
  if (name !== undefined && failedNames.has(name)) return
  const owner = name === undefined ? undefined : [...watchers].find(({ names }) => names.has(name))
  if (owner !== undefined) owner.own.push(reason)
  else for (const { shared } of watchers) shared.push(reason)
}
