import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A TCP proxy that repeats an earlier reply: clients that pair replies by order are then off by one. */
export interface ShiftingProxy {
  readonly host: string
  readonly port: number
  /** Keeps the next reply on each connection. */
  record(): void
  /** Sends the kept reply in place of the next one on each connection, and every later reply one too late. */
  insert(): void
  /** How many connections got a wrong reply. */
  readonly inserted: number
}

interface Wire {
  recording: boolean
  inserting: boolean
  kept: Buffer | undefined
  /** Sent in place of the next reply. */
  late: Buffer | undefined
}

/** Closed when the test ends. */
export async function startShiftingProxy(target: {
  readonly host: string
  readonly port: number
}): Promise<ShiftingProxy> {
  const wires = new Set<Wire>()
  const sockets = new Set<Socket>()
  let inserted = 0
  const server = createServer((client) => {
    const wire: Wire = { recording: false, inserting: false, kept: undefined, late: undefined }
    const upstream = connect(target.port, target.host)
    wires.add(wire)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
        wires.delete(wire)
      })
    }
    client.on('data', (chunk) => void upstream.write(chunk))
    upstream.on('data', (chunk: Buffer) => {
      if (wire.recording) wire.kept = chunk
      wire.recording = false
      if (wire.inserting && wire.kept !== undefined) {
        inserted += 1
        wire.late = wire.kept
      }
      wire.inserting = false
      client.write(wire.late ?? chunk)
      if (wire.late !== undefined) wire.late = chunk
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the proxy has no address')
  return {
    host: '127.0.0.1',
    port: address.port,
    record: () => wires.forEach((wire) => void (wire.recording = true)),
    insert: () => wires.forEach((wire) => void (wire.inserting = true)),
    get inserted() {
      return inserted
    },
  }
}
