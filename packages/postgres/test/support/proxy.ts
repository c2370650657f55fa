import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { ListenOptions, Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Server } from '../../../../conformance/services/index.ts'

export interface Proxy {
  /** 0 on a path. */
  readonly port: number
  /** Those that are connected. */
  readonly clients: ReadonlySet<Socket>
}

/** How a proxy connects a client and the server. */
export type Join = (client: Socket, behind: Socket) => void

export const pass: Join = (client, behind) => {
  client.pipe(behind)
  behind.pipe(client)
}

/** A proxy in front of a server, by default on any port of 127.0.0.1. */
export async function proxyTo(
  { host, port }: Pick<Server, 'host' | 'port'>,
  join: Join = pass,
  at: ListenOptions = { host: '127.0.0.1', port: 0 },
): Promise<Proxy> {
  const clients = new Set<Socket>()
  const proxy = createServer((client) => {
    clients.add(client)
    const behind = connect(port, host)
    behind.on('error', () => undefined).on('close', () => client.destroy())
    client
      .on('error', () => undefined)
      .on('close', () => {
        clients.delete(client)
        behind.destroy()
      })
    join(client, behind)
  }).listen(at)
  await once(proxy, 'listening')
  onTestFinished(() => {
    for (const client of clients) client.destroy()
    proxy.close()
  })
  const address = proxy.address()
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, clients }
}

/** Accepts connections and never answers. */
export const mute: Join = () => undefined
