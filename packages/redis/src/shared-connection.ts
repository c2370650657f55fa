// For adapters that keep something else than this package's locks on Redis. Not covered by semver.
export { Connection } from './connection.ts'
export type { ConnectionSettings } from './connection.ts'
export { evictionFinding, fieldOf } from './findings.ts'
export { isClient } from './option-table.ts'
export { keysOf, script } from './script.ts'
export type { Script } from './script.ts'
export { Subscriber } from './subscriber.ts'
