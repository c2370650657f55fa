import { connect, createServer, type Socket } from 'node:net'
import { Arrivals } from './fault-proxy-arrivals.ts'
import type { Direction, FaultProxy, FaultProxyOptions, Target } from './fault-proxy-contract.ts'
import { cutOf } from './fault-proxy-link.ts'
import type { Fail, Link } from './fault-proxy-link.ts'
import { makePipe, stopWaiting, throttle } from './fault-proxy-pipe.ts'
import type { Pipe } from './fault-proxy-pipe.ts'
import { replay } from './fault-proxy-replay.ts'
import { Replies } from './fault-proxy-replies.ts'
import { NOTHING, Traps } from './fault-proxy-traps.ts'

export type { FaultProxy, FaultProxyOptions, Frames, Shift, Target } from './fault-proxy-contract.ts'

interface Mode {
  readonly delayMs: number
  /** The directions that are delayed. */
  readonly late: 'both' | Direction
  /** The pause between two bytes, where each is sent alone. */
  readonly sliceMs: number | undefined
  readonly refusing: false | 'accept' | 'first-bytes'
  readonly vanishing: readonly Direction[]
}

const PASS: Mode = { delayMs: 0, late: 'both', sliceMs: undefined, refusing: false, vanishing: [] }

export async function startFaultProxy(
  initialTarget: Target,
  { frames }: FaultProxyOptions = {},
): Promise<FaultProxy> {
  let target = initialTarget
  let mode = PASS
  let closing: Promise<void> | undefined
  const traps = new Traps()
  const arrivals = new Arrivals()
  const links = new Set<Link>()
  const sockets = new Set<Socket>()
  const replays = new Set<Fail>()
  /** Accepted and not reset yet, since they have sent nothing. */
  const refused = new Set<Socket>()
  const stats = { connections: 0, open: 0, bytesToServer: 0, bytesToClient: 0, swallowed: 0 }
  const listener = createServer({ allowHalfOpen: true, noDelay: true }, accept)

  function track(socket: Socket): Socket {
    sockets.add(socket)
    // The 'close' event, which always follows an error, decides what it means for the other side.
    return socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
  }

  function accept(accepted: Socket): void {
    const client = track(accepted)
    stats.connections += 1
    if (mode.refusing) {
      if (mode.refusing === 'accept') client.resetAndDestroy()
      else
        refused.add(
          client.once('data', () => client.resetAndDestroy()).once('close', () => refused.delete(client)),
        )
      return
    }
    const arrival = arrivals.next()
    if (arrival !== undefined && 'refuse' in arrival.fault) {
      if (arrival.fault.refuse === 'reset') client.resetAndDestroy()
      else client.destroy()
      return arrival.suffered()
    }
    const server = track(connect({ ...target, allowHalfOpen: true, noDelay: true }))
    const pipes = [makePipe('requests', client, server), makePipe('replies', server, client)]
    const cut = cutOf(arrival)
    const replies = new Replies(frames)
    const link: Link = { client, server, pipes, replies, cut, request: NOTHING, trap: undefined, dead: false }
    links.add(link)
    stats.open += 1
    for (const pipe of pipes) attach(link, pipe)
  }

  function attach(link: Link, pipe: Pipe): void {
    pipe.from.on('data', (bytes: Buffer) => take(link, pipe, bytes))
    pipe.from.on('end', () => take(link, pipe, 'end'))
    pipe.from.on('close', (failed) => {
      if (failed || !pipe.from.readableEnded) take(link, pipe, 'reset')
      if (!link.client.closed || !link.server.closed || !links.delete(link)) return
      stats.open -= 1
      discard(link)
      traps.rearm(link)
    })
    const flow = (): void => {
      pipe.draining = false
      pump(link, pipe)
    }
    pipe.to.on('connect', flow).on('drain', flow)
  }

  function take(link: Link, pipe: Pipe, arrived: Buffer | 'end' | 'reset'): void {
    if (arrived === 'end' && pipe.direction === 'replies') traps.rearm(link)
    const what = pipe.direction === 'replies' ? reply(link, arrived) : arrived
    const size = typeof what === 'string' ? 0 : what.length
    if (link.dead || what.length === 0) {
      stats.swallowed += size
      return
    }
    pipe.held.push({ what, since: performance.now() })
    pipe.heldBytes += size
    if (vanishes(pipe)) drop(pipe)
    else if (pipe.cancelWake) throttle(pipe)
    else pump(link, pipe)
  }

  /** What is passed on instead of the bytes from the server. */
  function reply<T extends string>(link: Link, arrived: Buffer | T): Buffer | T {
    if (typeof arrived === 'string' || link.dead || cutShort(link, arrived)) return arrived
    const shift = link.trap?.shift
    if (shift === undefined) {
      traps.spring(link)
      return link.replies.pass(arrived)
    }
    const { out, shifted } = link.replies.shift(arrived, shift)
    stats.swallowed += Math.max(0, arrived.length - out.length)
    if (shifted) traps.spring(link)
    return out
  }

  /** Whether the connection is to be cut within these bytes. */
  function cutShort(link: Link, bytes: Buffer): boolean {
    const { cut } = link
    if (cut === undefined) return false
    cut.afterBytes -= bytes.length
    if (cut.afterBytes > 0) return false
    discard(link)
    // Not reset: the client gets what was sent so far.
    link.client.end(bytes.subarray(0, bytes.length + cut.afterBytes))
    link.server.resetAndDestroy()
    cut.suffered()
    return true
  }

  function vanishes(pipe: Pipe): boolean {
    return mode.vanishing.includes(pipe.direction)
  }

  function drop(pipe: Pipe): void {
    stopWaiting(pipe)
    if (pipe.held.length > 0) pipe.holed = true
    stats.swallowed += pipe.heldBytes
    pipe.held.length = 0
    pipe.heldBytes = 0
    // Dropped bytes are still read: back-pressure would show the sender that something is wrong.
    pipe.from.resume()
  }

  function pump(link: Link, pipe: Pipe): void {
    stopWaiting(pipe)
    while (pipe.held[0] && !pipe.draining && !pipe.cancelWake) {
      const isLate = mode.delayMs > 0 && (mode.late === 'both' || mode.late === pipe.direction)
      const waitMs = isLate ? pipe.held[0].since + mode.delayMs - performance.now() : 0
      if (waitMs > 0) {
        const timer = setTimeout(() => pump(link, pipe), waitMs)
        pipe.cancelWake = () => clearTimeout(timer)
      } else {
        forward(link, pipe)
      }
    }
    throttle(pipe)
  }

  function forward(link: Link, pipe: Pipe): void {
    const head = pipe.held[0]
    if (!head || typeof head.what === 'string') {
      pipe.held.shift()
      if (head?.what === 'end') pipe.to.end()
      else kill(link)
      return
    }
    const bytes = mode.sliceMs !== undefined ? head.what.subarray(0, 1) : head.what
    if (bytes.length < head.what.length) head.what = head.what.subarray(1)
    else pipe.held.shift()
    pipe.heldBytes -= bytes.length
    pipe.draining = !pipe.to.write(bytes)
    stats[pipe.direction === 'requests' ? 'bytesToServer' : 'bytesToClient'] += bytes.length
    if (pipe.direction === 'requests') traps.sent(link, bytes)
    if (mode.sliceMs === undefined) return
    if (mode.sliceMs > 0) {
      const timer = setTimeout(() => pump(link, pipe), mode.sliceMs)
      pipe.cancelWake = () => clearTimeout(timer)
      return
    }
    // One iteration of the event loop per byte, so that a reader in this process gets each alone.
    let immediate = setImmediate(() => {
      immediate = setImmediate(() => pump(link, pipe))
    })
    pipe.cancelWake = () => clearImmediate(immediate)
  }

  function disarm(reason: Error): void {
    arrivals.clear(reason)
    for (const link of links) traps.rearm(link)
    traps.fail(reason)
  }

  function swallow(link: Link): void {
    discard(link)
    link.client.resetAndDestroy()
    // FIN, not RST: an RST could discard what the server has not read yet, and the request has to arrive.
    link.server.end()
  }

  function discard(link: Link): void {
    link.dead = true
    for (const pipe of link.pipes) drop(pipe)
  }

  function kill(link: Link): void {
    discard(link)
    for (const socket of [link.client, link.server]) {
      // A socket that is sending its FIN cannot be reset: the attempt fails, and it never closes.
      if (socket.writableEnded && !socket.writableFinished) socket.destroy()
      else socket.resetAndDestroy()
    }
  }

  function enter(next: Mode): void {
    mode = next
    for (const client of refused) client.resetAndDestroy()
    for (const link of links) {
      if (link.dead) continue
      for (const pipe of link.pipes) if (vanishes(pipe)) drop(pipe)
      if (mode.refusing !== false || link.pipes.some((pipe) => pipe.holed && !vanishes(pipe))) kill(link)
      for (const pipe of link.pipes) if (!vanishes(pipe)) pump(link, pipe)
    }
  }

  async function shutDown(): Promise<void> {
    const reason = new Error('the fault proxy was closed')
    const stopped = new Promise((resolve) => listener.close(resolve))
    const gone = [...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)))
    for (const cancel of replays) cancel(reason)
    disarm(reason)
    for (const link of links) kill(link)
    // A socket that is still connecting delays its RST until it is connected, perhaps forever.
    for (const socket of sockets) socket.destroy()
    await Promise.all([stopped, ...gone])
  }

  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject)
    listener.listen(0, '127.0.0.1', resolve)
  })
  const address = listener.address()
  if (address === null || typeof address === 'string') throw new Error('the fault proxy has no TCP port')
  return {
    host: '127.0.0.1',
    port: address.port,
    stats,
    pass: () => {
      enter(PASS)
      disarm(new Error('the fault proxy was healed before the fault happened'))
    },
    delay: (ms, { direction = 'both', vanishing } = {}) =>
      enter({ ...PASS, delayMs: ms, late: direction, vanishing: vanishing === undefined ? [] : [vanishing] }),
    slice: (everyMs = 0) => enter({ ...PASS, sliceMs: everyMs }),
    blackhole: (direction = 'both') =>
      enter({ ...PASS, vanishing: direction === 'both' ? ['requests', 'replies'] : [direction] }),
    reset: () => {
      for (const link of links) kill(link)
      enter(PASS)
    },
    refuse: (at = 'accept') => enter({ ...PASS, refusing: at }),
    swallowNextReply: (options = {}) => traps.arm<void>(options, (done) => (link) => (done(), swallow(link))),
    replayNext: (options = {}) =>
      traps.arm<Buffer>(options, (done, fail) => (_, request) => {
        replays.add(replay(request, options, () => track(connect({ ...target, noDelay: true })), done, fail))
      }),
    shiftNextReply: (shift, options = {}) => traps.arm<void>(options, (done) => () => done(), shift),
    refuseNext: (count, how = 'reset') => arrivals.expect(count, { refuse: how }),
    cutNext: (count, afterBytes) => arrivals.expect(count, { cutAfter: afterBytes }),
    retarget: (next) => {
      target = next
    },
    close: () => (closing ??= shutDown()),
  }
}
