import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

/** @typedef {{ key: string, value: string, writer: string, revision: string, remainingMs: number }} Entry */
/** @typedef {{ op: string, key?: string, value?: string, writer?: string, revision?: string, ttlMs?: number }} Call */

/** The operations of a key-value server with leases, each of them atomic. */
export function createStore() {
  /** @type {Map<string, { value: string, writer: string, revision: string, expiresAt: number }>} */
  const entries = new Map()
  // From the clock, so that it also rises across a restart.
  let lastRevision = BigInt(Date.now()) * 1_000n

  /** @param {string} key @returns {Entry | null} */
  function look(key) {
    const entry = entries.get(key)
    const remainingMs = entry === undefined ? 0 : entry.expiresAt - performance.now()
    if (entry === undefined || remainingMs <= 0) {
      entries.delete(key)
      return null
    }
    const { value, writer, revision } = entry
    return { key, value, writer, revision, remainingMs }
  }

  /** @param {Call} call */
  return ({ op, key = '', value = '', writer, revision, ttlMs = 0 }) => {
    const current = look(key)
    const met =
      current !== null &&
      (writer === undefined || current.writer === writer) &&
      (revision === undefined || current.revision === revision)
    const expiresAt = performance.now() + ttlMs
    if (op === 'list') return [...entries.keys()].map(look).filter((entry) => entry !== null)
    if (op === 'add' && current === null) {
      entries.set(key, { value, writer: writer ?? '', revision: String(++lastRevision), expiresAt })
      return { done: true, entry: look(key) }
    }
    const entry = entries.get(key)
    if (op === 'prolong' && met && entry !== undefined) entry.expiresAt = Math.max(entry.expiresAt, expiresAt)
    if (op === 'delete' && met) entries.delete(key)
    return { done: met && op !== 'add', entry: look(key) }
  }
}

/** Serves a store on its own port: a line of JSON for a call, a line with the same id for its reply. */
export async function serve() {
  const store = createStore()
  const server = createServer({ noDelay: true }, (socket) => {
    // A client may disconnect at any time.
    socket.on('error', () => undefined)
    const lines = createInterface({ input: socket }).on('error', () => undefined)
    lines.on('line', (text) => {
      try {
        /** @type {{ id: number, call: Call }} */
        const { id, call } = JSON.parse(text)
        socket.write(`${JSON.stringify({ id, answer: store(call) })}\n`)
      } catch {
        // A truncated line: nothing after it can be parsed either.
        socket.destroy()
      }
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP port')
  return address.port
}

// As a process: prints its port, and ends with its parent.
if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  process.on('disconnect', () => process.exit())
  process.send?.(await serve())
}
