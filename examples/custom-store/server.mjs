import { createServer } from 'node:http'

/** A web server that keeps values in memory and supports conditional PUT. */
export async function startServer() {
  /** @type {Map<string, { body: string, version: bigint }>} */
  const records = new Map()
  const server = createServer((request, response) => {
    const key = request.url ?? ''
    let body = ''
    request.setEncoding('utf8').on('data', (text) => (body += text))
    request.on('end', () => {
      const current = records.get(key)
      const { 'if-match': match, 'if-none-match': none } = request.headers
      const met = none === '*' ? current === undefined : match === `"${current?.version}"`
      /** @param {number} status @param {{ body: string, version: bigint } | undefined} shown */
      const answer = (status, shown) =>
        response.writeHead(status, shown && { etag: `"${shown.version}"` }).end(shown?.body)
      if (request.method !== 'PUT') return answer(current === undefined ? 404 : 200, current)
      if (!met) return answer(412, current)
      // Starts from the clock, so that a deleted key does not come back at an old version.
      const version = current === undefined ? BigInt(Date.now()) * 1_000n : current.version + 1n
      records.set(key, { body, version })
      return answer(200, { body: '', version })
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP port')
  return {
    host: '127.0.0.1',
    port: address.port,
    url: `http://127.0.0.1:${address.port}/`,
    /** @param {string} key */
    drop: (key) => records.delete(`/?key=${encodeURIComponent(key)}`),
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(resolve)
      }),
  }
}
