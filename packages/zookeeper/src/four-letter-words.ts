import { connect } from 'node:net'
import type { Clock } from '@locks/core/adapter'

export interface Address {
  readonly host: string
  readonly port: number
}

/** A server answers at once or not at all. */
const TIMEOUT_MS = 2_000

/**
 * What a server answers to one of ZooKeeper's administrative commands, each on a new connection. Undefined when
 * it does not answer or does not allow the command.
 */
export function ask(address: Address, word: 'conf' | 'srvr', clock: Clock): Promise<string | undefined> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(address)
    const timer = clock.timer(TIMEOUT_MS, () => socket.destroy())
    socket.unref()
    socket.setEncoding('utf8')
    socket.on('connect', () => socket.write(word))
    socket.on('data', (part: string) => (text += part))
    // `close` follows.
    socket.on('error', () => undefined)
    socket.on('close', () => {
      timer.cancel()
      resolve(text === '' || text.includes('is not executed') ? undefined : text)
    })
  })
}

/** The value of a line such as `tickTime=2000` or `Mode: leader`. */
export function valueOf(text: string | undefined, key: string): string | undefined {
  for (const line of (text ?? '').split('\n')) {
    const [, name, value] = /^([\w.]+)\s*[=:]\s*(.*)$/.exec(line) ?? []
    if (name === key) return value
  }
  return undefined
}

/** How many servers have a vote, by the `server.N=` lines. */
export function votersOf(text: string): number {
  return text.split('\n').filter((line) => /^server\.\d+=/.test(line) && !line.includes(':observer')).length
}
