import type { AdapterFactory } from '@locks/core'
import { zookeeperAdapter } from './adapter.ts'
import type { ZookeeperCapabilities } from './capabilities.ts'
import { withFinalErrors } from './errors.ts'
import type { ZookeeperOptions } from './options.ts'
import { settle } from './settings.ts'

export type { ZookeeperCapabilities } from './capabilities.ts'
export type { ZookeeperAclEntry, ZookeeperAuth, ZookeeperClient, ZookeeperOptions } from './options.ts'

/** Locks in the layout of Curator's `InterProcessMutex`. Each client has one session, shared by all its locks. */
export function zookeeper(options: ZookeeperOptions): AdapterFactory<ZookeeperCapabilities> {
  const settings = settle(typeof options === 'object' ? { ...options } : options)
  return (host) => withFinalErrors(zookeeperAdapter(settings, host))
}

/** For `openLocks`: a URL, or the options of `zookeeper` but for `client`. */
export function fromConfig(
  options: Readonly<Record<string, unknown>>,
): AdapterFactory<ZookeeperCapabilities> {
  const settings = settle(options)
  return (host) => withFinalErrors(zookeeperAdapter(settings, host))
}
