import type { AdapterFactory } from '@locks/core/adapter'
import { zookeeperAdapter } from './adapter.ts'
import type { ZookeeperCapabilities } from './capabilities.ts'
import type { ZookeeperOptions } from './option-table.ts'
import { settle } from './settings.ts'

export type { ZookeeperCapabilities } from './capabilities.ts'
export type { ZookeeperAclEntry, ZookeeperAuth, ZookeeperClient, ZookeeperOptions } from './option-table.ts'

/** Locks in the layout of Curator's `InterProcessMutex`. Each client has one session, shared by all its locks. */
export function zookeeper(options: ZookeeperOptions): AdapterFactory<ZookeeperCapabilities> {
  const settings = settle(options)
  return (host) => zookeeperAdapter(settings, host)
}

/** For `openLocks`: a URL, or the options of `zookeeper` except `client`. */
export function fromConfig(
  options: Readonly<Record<string, unknown>>,
): AdapterFactory<ZookeeperCapabilities> {
  return zookeeper(options)
}
