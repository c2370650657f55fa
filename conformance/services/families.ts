import { isAdapterSelected, scope } from '../selection.ts'
import type { ServiceKind } from './service.ts'

/** The adapters that need a server, and which. */
export const families = {
  redis: ['redis', 'redis-sentinel', 'redis-cluster'],
  redlock: ['redis-independent'],
  cas: ['redis'],
  postgres: ['postgres', 'postgres-standby'],
  mysql: ['mariadb'],
  zookeeper: ['zookeeper', 'zookeeper-ensemble'],
} as const satisfies Readonly<Record<string, readonly ServiceKind[]>>

export type Family = keyof typeof families

/** The kinds of service that this run can need. */
export function selectedKinds(): readonly ServiceKind[] {
  if (scope() === 'quick') return ['redis']
  const wanted = Object.entries(families).filter(([family]) => isAdapterSelected(family))
  return [...new Set(wanted.flatMap(([, kinds]) => kinds))]
}
