// For `node --import`: `ioredis` is the version that is installed as LOCKS_TEST_LIBRARY.
import { register } from 'node:module'
import { isMainThread } from 'node:worker_threads'

// Node runs this file again beside each process, to ask it.
if (isMainThread) register(import.meta.url)

const home = new URL('../../packages/redis/package.json', import.meta.url).href

/** @type {import('node:module').ResolveHook} */
export function resolve(specifier, context, next) {
  const library = process.env['LOCKS_TEST_LIBRARY'] ?? 'ioredis'
  return specifier === 'ioredis' ? next(library, { ...context, parentURL: home }) : next(specifier, context)
}
