// For adapters that keep something else than this package's locks on Redis. Not covered by semver.
export { isClient } from './client.ts'
export { Connection } from './connection.ts'
export type { ConnectionSettings } from './connection.ts'
export { keysOf } from './script-call.ts'
export { script } from './script.ts'
export type { Script } from './script.ts'
export { Watches } from './watches.ts'
