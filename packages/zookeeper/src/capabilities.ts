import { capabilities } from '@locks/core/adapter'
import type { CapabilitiesOf } from '@locks/core/adapter'

const given = {
  kind: 'session',
  // The queue is in the store: when a node goes, the next one holds the lock.
  wait: 'handoff',
  fairness: 'fifo',
  list: true,
  break: true,
  minTtlMs: 10,
} as const

export type ZookeeperCapabilities = CapabilitiesOf<typeof given>

export const zookeeperCapabilities: ZookeeperCapabilities = capabilities(given)
