import type { Socket } from 'node:net'
import type { Arrival } from './fault-proxy-arrivals.ts'
import type { Shift } from './fault-proxy-contract.ts'
import type { Pipe } from './fault-proxy-pipe.ts'
import type { Replies } from './fault-proxy-replies.ts'

export type Fail = (reason: Error) => void
export type Spring = (link: Link, request: Buffer) => void

export interface Trap {
  readonly matching: (request: Buffer) => boolean
  readonly spring: Spring
  readonly fail: Fail
  /** How it changes the whole reply before it takes effect. */
  readonly shift: Shift | undefined
}

export interface Link {
  readonly client: Socket
  readonly server: Socket
  readonly pipes: readonly Pipe[]
  readonly replies: Replies
  /** The connection ends when the server has sent this many more bytes. */
  cut: { afterBytes: number; readonly suffered: () => void } | undefined
  request: Buffer
  trap: Trap | undefined
  dead: boolean
}

export function cutOf(arrival: Arrival | undefined): Link['cut'] {
  if (arrival === undefined || !('cutAfter' in arrival.fault)) return undefined
  return { afterBytes: arrival.fault.cutAfter, suffered: arrival.suffered }
}
