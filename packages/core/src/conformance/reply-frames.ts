import type { Frames } from './fault-proxy.ts'

/** Where the reply at the start of `bytes` ends; undefined when it is not complete. */
type EndOf = (bytes: Buffer) => number | undefined

function framesBy(endOf: EndOf): Frames {
  return () => {
    let rest = Buffer.alloc(0)
    return (bytes) => {
      rest = Buffer.concat([rest, bytes])
      const replies: Buffer[] = []
      for (let end = endOf(rest); end !== undefined; end = endOf(rest)) {
        replies.push(rest.subarray(0, end))
        rest = rest.subarray(end)
      }
      return replies
    }
  }
}

/** One JSON text per line. */
export const lineFrames: Frames = framesBy((bytes) => {
  const end = bytes.indexOf('\n')
  return end < 0 ? undefined : end + 1
})

/** A 32-bit length, then that many bytes. */
export const zookeeperFrames: Frames = framesBy((bytes) => {
  const end = bytes.length < 4 ? Infinity : 4 + bytes.readInt32BE(0)
  return end > bytes.length ? undefined : end
})

/** Values of RESP2 and RESP3. */
export const redisFrames: Frames = framesBy((bytes) => endOfValue(bytes, 0))

function endOfValue(bytes: Buffer, at: number): number | undefined {
  const line = bytes.indexOf('\r\n', at)
  if (line < 0) return undefined
  const kind = bytes.toString('latin1', at, at + 1)
  const size = Number(bytes.toString('latin1', at + 1, line))
  let end: number | undefined = line + 2
  if ('$!='.includes(kind)) {
    if (size >= 0) end += size + 2
    return end > bytes.length ? undefined : end
  }
  const values = '*~>'.includes(kind) ? size : '%|'.includes(kind) ? size * 2 : 0
  for (let n = 0; n < values && end !== undefined; n += 1) end = endOfValue(bytes, end)
  return end
}

/**
 * Everything up to ReadyForQuery, or up to what some clients wait for before they go on: a request for authentication,
 * or the description of a statement and its parameters. A notification is a separate reply.
 */
export const postgresFrames: Frames = framesBy((bytes) => {
  let at = 0
  let described = false
  while (at + 5 <= bytes.length) {
    const kind = bytes.toString('latin1', at, at + 1)
    const end = at + 1 + bytes.readInt32BE(at + 1)
    if (end > bytes.length) return undefined
    const asks = kind === 'R' && end >= at + 9 && bytes.readInt32BE(at + 5) !== 0
    const isDescription = described && (kind === 'T' || kind === 'n')
    if (kind === 'Z' || asks || isDescription || (kind === 'A' && at === 0)) return end
    described ||= kind === 't'
    at = end
  }
  return undefined
})
