/** `requests` go from the client to the server, `replies` the other way. */
export type Direction = 'requests' | 'replies'

export interface Target {
  readonly host: string
  readonly port: number
}

export interface DelayOptions {
  /** What is held back. Default: both. */
  readonly direction?: 'both' | Direction
  /** What is dropped meanwhile: with late replies, those to earlier requests still arrive. */
  readonly vanishing?: Direction
}

export interface SwallowOptions {
  /** Selects the request, by the bytes its connection has sent since the last reply. Default: the next one. */
  readonly matching?: (request: Buffer) => boolean
}

export interface ReplayOptions extends SwallowOptions {
  /** How long after the reply to the original the copy is sent. Default: 0. */
  readonly afterMs?: number
  /** What a new connection must send before the request, such as `AUTH`; one reply to it is awaited. */
  readonly preamble?: Buffer
}

/**
 * Splits what a server sends into replies. Called once per connection, before its first byte; the function it returns
 * gets the bytes as they arrive and returns the replies that are complete, in order. Everything that a server sends for
 * one request is one reply, and so is its greeting.
 */
export type Frames = () => (bytes: Buffer) => readonly Buffer[]

export interface FaultProxyOptions {
  /** Default: each chunk that arrives is one reply. */
  readonly frames?: Frames
}

/**
 * Faults that put the replies of a connection out of step with its requests. `drop`: a reply never arrives.
 * `duplicate`: it arrives twice. `insert`: the previous reply arrives again before it.
 */
export type Shift = 'drop' | 'duplicate' | 'insert'

export interface FaultProxyStats {
  /** Accepted so far, refused ones included. */
  readonly connections: number
  /** Connections with at least one side still open. */
  readonly open: number
  readonly bytesToServer: number
  readonly bytesToClient: number
  /** Bytes that reached the proxy and were dropped. */
  readonly swallowed: number
}

/**
 * A TCP proxy that injects wire faults. It is in one mode at a time, which applies to old and new connections; each
 * call replaces the previous mode. A TCP stream cannot continue with bytes missing: when bytes flow again in a
 * direction that lost some, that connection is reset.
 */
export interface FaultProxy {
  readonly host: '127.0.0.1'
  readonly port: number
  readonly stats: FaultProxyStats
  /** Ends all faults: delayed bytes are passed on, and a pending `…Next…` fault rejects. */
  pass(): void
  /** Delays every chunk by `ms`, in order. */
  delay(ms: number, options?: DelayOptions): void
  /**
   * Writes byte by byte, one every `everyMs`. Default: as fast as possible. The receiving kernel may still join bytes
   * for a slow reader.
   */
  slice(everyMs?: number): void
  /** Drops all bytes, and does not pass on that a side closed. Connections stay open and new ones are accepted. */
  blackhole(direction?: 'both' | Direction): void
  /** Sends RST on all current connections. New ones pass. */
  reset(): void
  /** Like `reset`; new connections are reset as soon as they are accepted, or at their first bytes. */
  refuse(at?: 'accept' | 'first-bytes'): void
  /**
   * The next matching request reaches the server; its reply is dropped and the client's connection reset. Resolves when
   * that has happened. If a connection ends without a reply, the fault waits for the next one. The proxy does not know
   * the protocol: the first bytes from the server after the request count as its reply.
   */
  swallowNextReply(options?: SwallowOptions): Promise<void>
  /**
   * The next matching request is answered as usual and later sent again on a separate connection, which no fault
   * affects. Resolves with the server's reply to the copy: check it, since a rejected copy (`NOAUTH`) shows nothing.
   * Does not work with a challenge-response handshake (PostgreSQL, MySQL).
   */
  replayNext(options?: ReplayOptions): Promise<Buffer>
  /**
   * The reply to the next matching request is dropped, doubled or preceded by a copy of the previous one; its
   * connection continues. Resolves when that has happened. With several requests under way on a connection, it is the
   * next reply to any of them.
   */
  shiftNextReply(shift: Shift, options?: SwallowOptions): Promise<void>
  /** The next `count` connections are accepted and closed at once. Resolves when all of them were. Not a mode. */
  refuseNext(count: number, how?: 'reset' | 'close'): Promise<void>
  /**
   * The next `count` connections end when the server has sent `afterBytes`, which the client still gets: in the middle
   * of a handshake. Resolves when all of them did. Not a mode.
   */
  cutNext(count: number, afterBytes: number): Promise<void>
  /** Only new connections go to the new target. */
  retarget(target: Target): void
  /** Destroys every connection. Resolves when no handle is left. */
  close(): Promise<void>
}
