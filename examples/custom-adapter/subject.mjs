import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const adapter = fileURLToPath(new URL('index.mjs', import.meta.url))
const program = fileURLToPath(new URL('server.mjs', import.meta.url))

/**
 * What the suite runs against: a server in a separate process, which the suite pauses and reaches through a proxy.
 *
 * @returns {Promise<import('@locks/core/conformance').Subject & AsyncDisposable>}
 */
export async function subject() {
  const server = fork(program)
  const port = await new Promise((resolve, reject) => {
    server.once('message', resolve)
    server.once('exit', () => reject(new Error('the server exited before it was ready')))
  })
  /** @param {{ host: string, port: number }} at */
  const via = ({ host, port: at }) => ({ adapter, url: `http://${host}:${at}/` })
  const target = { host: '127.0.0.1', port: Number(port) }
  return {
    name: 'custom adapter (example)',
    config: via(target),
    wire: { target, via },
    server: {
      pause: () => void server.kill('SIGSTOP'),
      resume: () => void server.kill('SIGCONT'),
    },
    async [Symbol.asyncDispose]() {
      server.kill('SIGKILL')
    },
  }
}
