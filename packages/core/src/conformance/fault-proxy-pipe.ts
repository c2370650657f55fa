import type { Socket } from 'node:net'
import type { Direction } from './fault-proxy-contract.ts'

const HELD_LIMIT = 256 * 1024

/** One direction of one proxied connection. */
export interface Pipe {
  readonly direction: Direction
  readonly from: Socket
  readonly to: Socket
  readonly held: { what: Buffer | 'end' | 'reset'; readonly since: number }[]
  heldBytes: number
  holed: boolean
  draining: boolean
  cancelWake: (() => void) | undefined
}

export function makePipe(direction: Direction, from: Socket, to: Socket): Pipe {
  const draining = to.connecting
  return { direction, from, to, held: [], heldBytes: 0, holed: false, draining, cancelWake: undefined }
}

export function stopWaiting(pipe: Pipe): void {
  pipe.cancelWake?.()
  pipe.cancelWake = undefined
}

export function throttle(pipe: Pipe): void {
  if (pipe.draining || pipe.heldBytes > HELD_LIMIT) pipe.from.pause()
  else pipe.from.resume()
}
