// For adapters that keep something else than this package's locks on Redis. Not covered by semver.
export { Connection } from './connection.ts'
export type { ConnectionSettings } from './connection.ts'
export { isClient } from './drivers/given.ts'
export { evictionFinding, fieldOf } from './findings.ts'
export { keysOf, script } from './script.ts'
export type { Script } from './script.ts'
export { Subscriber } from './subscriber.ts'
