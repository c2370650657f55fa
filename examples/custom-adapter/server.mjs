import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

/** A web server that keeps what is PUT in memory, under the conditions of the request. */
export async function serve() {
  /** @type {Map<string, { body: string, version: string }>} */
  const records = new Map()
  let versions = 0
  const server = createServer((request, response) => {
    const key = request.url ?? ''
    let body = ''
    request.setEncoding('utf8').on('data', (text) => (body += text))
    request.on('end', () => {
      const current = records.get(key)
      /** @param {number} status @param {{ body: string, version: string }} [shown] */
      const answer = (status, shown) =>
        response
          .writeHead(status, { 'x-now': Date.now(), ...(shown && { etag: shown.version }) })
          .end(shown?.body)
      if (request.method !== 'PUT') return answer(current === undefined ? 404 : 200, current)
      const { 'if-match': match, 'if-none-match': none } = request.headers
      const met = none === '*' ? current === undefined : match === current?.version
      if (!met) return answer(412)
      records.set(key, { body, version: `"${++versions}"` })
      return answer(200)
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP port')
  return address.port
}

// As a process: reports its port, and ends with its parent.
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  process.on('disconnect', () => process.exit())
  process.send?.(await serve())
}
