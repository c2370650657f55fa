import { Agent, request } from 'node:http'

/**
 * A client of the server: `ETag` is the version, `If-Match` and `If-None-Match` make a write conditional.
 *
 * @param {string} url
 */
export function openStore(url) {
  const agent = new Agent({ keepAlive: true, maxSockets: 10 })

  /**
   * Rejects without an answer: the outcome is then unknown.
   *
   * @param {string} key
   * @param {string} [body] with it, a write
   * @param {Record<string, string>} [headers]
   * @returns {Promise<{ status: number, value: string, version: string | undefined, now: number }>}
   */
  function call(key, body, headers = {}) {
    const options = { agent, headers, method: body === undefined ? 'GET' : 'PUT' }
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(3_000)
      const sent = request(new URL(`?key=${encodeURIComponent(key)}`, url), { ...options, signal })
      sent.on('response', (answer) => {
        let value = ''
        answer.setEncoding('utf8').on('data', (text) => (value += text))
        answer.on('error', reject).on('end', () => {
          const [status, now] = [answer.statusCode ?? 0, Number(answer.headers['x-now'])]
          if ([200, 404, 412].includes(status) && now > 0)
            resolve({ status, value, version: answer.headers.etag, now })
          else reject(new Error(`the server answered ${status}`))
        })
      })
      // Core keeps the process alive while a call is pending; a silent server must not.
      sent.on('socket', (socket) => socket.unref())
      sent.on('error', reject).end(body)
    })
  }

  return {
    /** The value of `key`, its version, and the server's clock. @param {string} key */
    async get(key) {
      const { status, value, version, now } = await call(key)
      return status === 200 ? { value, version, now } : { now }
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
      return (await call(key, value, headers)).status === 200
    },
  }
}
