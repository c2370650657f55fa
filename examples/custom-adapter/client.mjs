import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/** @typedef {{ resolve: (answer: any) => void, reject: (error: Error) => void }} Waiting */

const SILENCE_MS = 3_000

/**
 * Talks to the server on one connection, which is opened when it is needed. Answers come in the order of the calls.
 * Whatever happens to the connection, every call settles: with its answer, or with an error that says it is unknown.
 *
 * @param {{ host: string, port: number }} address
 */
export function createClient(address) {
  /** @type {{ socket: import('node:net').Socket, waiting: Waiting[] } | undefined} */
  let line

  function open() {
    // Not reason enough to keep a program alive: core does that while somebody waits.
    const socket = connect({ ...address, noDelay: true }).unref()
    /** @type {Waiting[]} */
    const waiting = []
    /** @param {Error} why */
    const fail = (why) => {
      if (line?.socket === socket) line = undefined
      socket.destroy()
      for (const { reject } of waiting.splice(0)) reject(why)
    }
    socket.on('error', fail).on('close', () => fail(new Error('the connection was closed')))
    socket.setTimeout(SILENCE_MS, () => waiting.length > 0 && fail(new Error('the server is silent')))
    createInterface({ input: socket })
      .on('line', (text) => waiting.shift()?.resolve(JSON.parse(text)))
      // The socket's own, once more.
      .on('error', () => undefined)
    return { socket, waiting }
  }

  return {
    /** @param {import('./server.mjs').Call} call @returns {Promise<any>} */
    call: (call) =>
      new Promise((resolve, reject) => {
        line ??= open()
        line.waiting.push({ resolve, reject })
        line.socket.write(`${JSON.stringify(call)}\n`)
      }),
    close: () => void line?.socket.destroy(),
  }
}
