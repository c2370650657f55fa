import type { AdapterFactory } from '@locks/core/adapter'
import { openNode } from '@locks/redis/node'
import { redlockAdapter } from './adapter.ts'
import type { RedlockCapabilities } from './adapter.ts'
import { Nodes } from './nodes.ts'
import type { RedlockOptions } from './option-table.ts'
import { settle } from './options.ts'

export type { RedlockCapabilities } from './adapter.ts'
export type { RedlockOptions } from './option-table.ts'

/** Locks that a majority of independent Redis servers agrees on. Connects when first used. */
export function redlock(options: RedlockOptions): AdapterFactory<RedlockCapabilities> {
  const { nodes, quorum, nodeTimeoutMs, fencing } = settle(options)
  return (host) => {
    const open = new Nodes(nodes.map(openNode), quorum, nodeTimeoutMs, host.clock)
    return redlockAdapter(open, fencing, host)
  }
}

export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory<RedlockCapabilities> {
  return redlock(options)
}
