import type { ServiceKind } from './service.ts'

/** The backends that need a server, by the names LOCKS_ONLY takes. */
export const families = {
  redis: ['redis', 'redis-sentinel', 'redis-cluster'],
  redlock: ['redis-independent'],
  postgres: ['postgres'],
  mysql: ['mariadb'],
  zookeeper: ['zookeeper', 'zookeeper-ensemble'],
} as const satisfies Readonly<Record<string, readonly ServiceKind[]>>

export type Family = keyof typeof families

/** LOCKS_ONLY narrows a run to some backends: `memory,redis`. Unset, every family counts. */
export function isSelected(family: Family): boolean {
  const only = process.env['LOCKS_ONLY']?.trim()
  if (only === undefined || only === '') return true
  return only.split(',').some((name) => name.trim() === family)
}

/** The kinds of service that this run can need. */
export function selectedKinds(): readonly ServiceKind[] {
  return Object.entries(families).flatMap(([family, kinds]) =>
    isFamily(family) && isSelected(family) ? kinds : [],
  )
}

function isFamily(name: string): name is Family {
  return name in families
}
