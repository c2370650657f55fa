/** `requests` run from the client to the server, `replies` the other way. */
export type Direction = 'requests' | 'replies'

export interface Target {
  readonly host: string
  readonly port: number
}

export interface DelayOptions {
  /** What is held back. Default: both. */
  readonly direction?: 'both' | Direction
  /** What vanishes meanwhile: with late replies, those of earlier requests still arrive. */
  readonly vanishing?: Direction
}

export interface SwallowOptions {
  /** Picks the request, by the bytes its connection has sent since the last reply. Default: the next one. */
  readonly matching?: (request: Buffer) => boolean
}

export interface ReplayOptions extends SwallowOptions {
  /** How long after the reply to the original the copy is sent. Default 0. */
  readonly afterMs?: number
  /** What a new connection must say before the request, such as `AUTH`; one answer to it is awaited. */
  readonly preamble?: Buffer
}

/**
 * Splits what a server sends into replies. Called once per connection, before its first byte; the function it returns
 * gets the bytes as they arrive and returns the replies that are complete by now, first to last. Everything a server
 * says in answer to one request is one reply, its greeting too.
 */
export type Frames = () => (bytes: Buffer) => readonly Buffer[]

export interface FaultProxyOptions {
  /** Default: what arrives in one piece is one reply. */
  readonly frames?: Frames
}

/**
 * What puts the replies of a connection out of step with its requests. `drop`: one never arrives. `duplicate`: one
 * arrives twice. `insert`: the one before it arrives again first.
 */
export type Shift = 'drop' | 'duplicate' | 'insert'

export interface FaultProxyStats {
  /** Accepted so far, refused ones included. */
  readonly connections: number
  /** Connections of which at least one side is still open. */
  readonly open: number
  readonly bytesToServer: number
  readonly bytesToClient: number
  /** Bytes that reached the proxy and will never leave it. */
  readonly swallowed: number
}

/**
 * A TCP proxy that injects wire faults. One mode holds at a time, for old and new connections alike; each
 * call replaces the mode before it. A TCP stream with a hole never goes on: when a mode lets bytes flow again
 * in a direction that lost some, that connection is reset.
 */
export interface FaultProxy {
  readonly host: '127.0.0.1'
  readonly port: number
  readonly stats: FaultProxyStats
  /** Heals: what was held back flows on; a fault that was to come (`…Next…`) and did not yet rejects. */
  pass(): void
  /** Holds every chunk back for `ms`, in order. */
  delay(ms: number, options?: DelayOptions): void
  /**
   * Writes byte by byte, one every `everyMs`. Default: as fast as it can. The receiving kernel may still join bytes
   * that their reader is slow to fetch.
   */
  slice(everyMs?: number): void
  /** Bytes vanish, and so does the news that one side hung up; connections stay open, new ones are accepted. */
  blackhole(direction?: 'both' | Direction): void
  /** Sends RST on all current connections. New ones pass. */
  reset(): void
  /** As `reset`, and new connections are reset as soon as they are accepted, or at their first bytes. */
  refuse(at?: 'accept' | 'first-bytes'): void
  /**
   * The next matching request reaches the server; its reply is swallowed and the client's connection reset.
   * Resolves once that happened. A connection that ends without a reply leaves the trap armed for the next.
   * The proxy knows no protocol: the first bytes from the server after the request count as its reply.
   */
  swallowNextReply(options?: SwallowOptions): Promise<void>
  /**
   * The next matching request is answered as usual and later sent again, on a connection of its own, past
   * whatever fault is on. Resolves with the server's answer to the copy: check it, for a copy refused at the
   * door (`NOAUTH`) proves nothing. Cannot get past a handshake by challenge (PostgreSQL, MySQL).
   */
  replayNext(options?: ReplayOptions): Promise<Buffer>
  /**
   * The reply to the next matching request is dropped, doubled or preceded by a copy of the one before; its connection
   * goes on. Resolves once that happened. On a connection with several requests under way it is the next reply, of
   * whichever of them.
   */
  shiftNextReply(shift: Shift, options?: SwallowOptions): Promise<void>
  /** The next `count` connections are accepted and ended at once. Resolves when they all were. Not a mode. */
  refuseNext(count: number, how?: 'reset' | 'close'): Promise<void>
  /**
   * The next `count` connections end once the server has sent `afterBytes`, which the client still gets: in the midst of
   * a handshake. Resolves when they all did. Not a mode.
   */
  cutNext(count: number, afterBytes: number): Promise<void>
  /** Only new connections go to the new target. */
  retarget(target: Target): void
  /** Destroys every connection and resolves when no handle is left. */
  close(): Promise<void>
}
