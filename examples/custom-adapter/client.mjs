import { connect } from 'node:net'
import { createInterface } from 'node:readline'

/** @typedef {{ id: number, resolve: (answer: any) => void, reject: (error: Error) => void }} Waiting */

const SILENCE_MS = 3_000

/**
 * Calls the server on one connection, which is opened when it is needed. Replies come in the order of the calls, and
 * each names its call: one that is missing, doubled or torn ends the connection, so that no call gets the wrong reply.
 * Every call settles, with its answer or with an error that leaves the outcome unknown.
 *
 * @param {{ host: string, port: number }} address
 */
export function createClient(address) {
  /** @type {{ socket: import('node:net').Socket, waiting: Waiting[] } | undefined} */
  let line
  let calls = 0

  function open() {
    // The socket must not keep the program alive: core does that while a caller waits.
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
      .on('line', (text) => {
        const reply = read(text)
        if (reply === undefined || reply.id !== waiting[0]?.id)
          return fail(new Error('the answer is not to the oldest call'))
        waiting.shift()?.resolve(reply.answer)
      })
      // The error event of the socket repeats it.
      .on('error', () => undefined)
    return { socket, waiting }
  }

  return {
    /** @param {import('./server.mjs').Call} call @returns {Promise<any>} */
    call: (call) =>
      new Promise((resolve, reject) => {
        line ??= open()
        const id = ++calls
        line.waiting.push({ id, resolve, reject })
        line.socket.write(`${JSON.stringify({ id, call })}\n`)
      }),
    close: () => void line?.socket.destroy(),
  }
}

/** @param {string} line @returns {{ id: number, answer: any } | undefined} undefined when it was cut off */
function read(line) {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
