/**
 * A client of the server: `ETag` is the version, `If-Match` and `If-None-Match` make a write conditional.
 *
 * @param {string} url
 */
export function openStore(url) {
  /** @param {string} key @param {RequestInit} [init] */
  const call = async (key, init) => {
    // A request that hangs must end as an error, since its outcome is unknown.
    const signal = AbortSignal.timeout(3_000)
    const answer = await fetch(new URL(`?key=${encodeURIComponent(key)}`, url), { ...init, signal })
    if (![200, 404, 412].includes(answer.status)) throw new Error(`the server answered ${answer.status}`)
    return answer
  }
  return {
    /** The value of `key`, its version, and the server's clock. @param {string} key */
    async get(key) {
      const answer = await call(key)
      const value = await answer.text()
      const [version, now] = [answer.headers.get('etag'), Number(answer.headers.get('x-now'))]
      if (!(now > 0)) throw new Error('the answer does not have the time of the server')
      return version === null ? { now } : { value, version, now }
    },

    /**
     * Writes only over the version that was read, or if there was none. Returns whether it did.
     *
     * @param {string} key
     * @param {string} value
     * @param {string | undefined} version
     */
    async put(key, value, version) {
      /** @type {Record<string, string>} */
      const headers = version === undefined ? { 'if-none-match': '*' } : { 'if-match': version }
      const answer = await call(key, { method: 'PUT', body: value, headers })
      await answer.text()
      return answer.status === 200
    },
  }
}
