import { cas } from '@locks/cas'

/**
 * Locks on a web server with conditional requests: `ETag` is the version, `If-Match` and `If-None-Match` compare it,
 * 412 is a conflict that returns the current value.
 *
 * @param {Readonly<Record<string, unknown>>} options
 * @returns {import('@locks/cas').StoreFactory}
 */
export function storeFrom({ url }) {
  if (typeof url !== 'string') throw new TypeError('url must be a string')
  /** @param {string} key @param {RequestInit} [init] */
  const ask = (key, init) => {
    // A slow server is an outage too; a hung request would leave its caller in doubt.
    const signal = AbortSignal.timeout(3_000)
    // Not as a path: `..` is a valid key.
    return fetch(new URL(`?key=${encodeURIComponent(key)}`, url), { ...init, signal })
  }
  return () => ({
    scope: 'cluster',
    fencing: 'durable',
    get: async (key) => present(await ask(key)),
    async put(key, value, expected) {
      const condition = expected === undefined ? { 'if-none-match': '*' } : { 'if-match': `"${expected}"` }
      const answer = await ask(key, { method: 'PUT', body: value, headers: condition })
      if (answer.status === 412) return { conflict: true, current: await present(answer) }
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`)
      return { version: versionOf(answer) }
    },
    close: async () => undefined,
  })
}

/** What lets a config name this module: `{ adapter: './http-store.mjs', url }`. @param {Parameters<typeof storeFrom>[0]} options */
export const fromConfig = (options) => cas(storeFrom(options))

/** @param {Response} answer */
async function present(answer) {
  if (answer.status === 404 || !answer.headers.has('etag')) return undefined
  return { value: await answer.text(), version: versionOf(answer) }
}

/** @param {Response} answer */
function versionOf(answer) {
  return BigInt((answer.headers.get('etag') ?? '').replaceAll('"', ''))
}
