import type { Socket } from 'node:net'
import type { ReplayOptions } from './fault-proxy-contract.ts'

/** Sends a request again on a separate connection. Returns a function that cancels it. */
export function replay(
  request: Buffer,
  { preamble, afterMs = 0 }: ReplayOptions,
  open: () => Socket,
  done: (reply: Buffer) => void,
  fail: (reason: Error) => void,
): (reason: Error) => void {
  const parts = preamble ? [preamble, request] : [request]
  const timer = setTimeout(() => {
    const socket = open()
    const say = (): boolean => {
      const next = parts.shift()
      if (next !== undefined) socket.write(next)
      return next !== undefined
    }
    say()
    socket.on('data', (reply: Buffer) => {
      if (say()) return
      done(reply)
      socket.destroy()
    })
    socket.on('close', () => fail(new Error('the replayed request got no reply')))
  }, afterMs)
  return (reason) => {
    clearTimeout(timer)
    fail(reason)
  }
}
