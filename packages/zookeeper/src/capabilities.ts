export const capabilities = {
  scope: 'cluster',
  kind: 'session',
  fencing: 'durable',
  // The store orders the queue: once its predecessor is gone, the next node holds the lock.
  wait: 'handoff',
  fairness: 'fifo',
  handover: false,
  lockDelay: false,
  minHold: false,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 10,
  maxNameBytes: 1024,
} as const

export type ZookeeperCapabilities = typeof capabilities
