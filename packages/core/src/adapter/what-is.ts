/** Clients and connections that are easily confused, by members that only they have. */
const known: readonly (readonly [what: string, members: readonly string[]])[] = [
  ['a client of node-redis (the package redis)', ['sendCommand', 'isOpen', 'isReady']],
  ['a client of ioredis', ['sendCommand', 'isCluster', 'status']],
  ['a pool of pg', ['connect', 'totalCount', 'idleCount']],
  ['a single client of pg', ['connectionParameters', 'query']],
  ['a sql of postgres (postgres.js)', ['begin', 'reserve', 'unsafe']],
  ['a transaction or a single connection of postgres (postgres.js)', ['typed', 'unsafe']],
  ['a pool of mysql2', ['getConnection', 'execute']],
  ['a pool of the package mysql', ['getConnection', 'acquireConnection']],
  ['a single connection of mysql2', ['beginTransaction', 'execute']],
  ['a client of node-zookeeper-client', ['connectionManager', 'getState']],
]

/**
 * Describes a value that was passed instead of a client or a pool, for an error message. Names its kind and shows
 * nothing of its content, which may be a password.
 */
export function whatIs(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value !== 'object' && typeof value !== 'function') return `a ${typeof value}`
  if (value instanceof Promise || ('then' in value && typeof value.then === 'function'))
    return 'a Promise: await it first'
  if (Array.isArray(value)) return 'a list'
  const found = known.find(([, members]) => members.every((member) => member in value))
  if (found !== undefined) return found[0]
  if (typeof value === 'function') return 'a function'
  const { constructor } = value
  const name = typeof constructor === 'function' ? constructor.name : ''
  return name === '' || name === 'Object' ? 'an object of another kind' : `an object of class ${name}`
}
