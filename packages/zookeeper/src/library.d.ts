/** What this package uses of node-zookeeper-client, which has no types. `quirks.ts` alone uses `connectionManager`. */
declare module 'node-zookeeper-client' {
  import type { EventEmitter } from 'node:events'
  import type { Socket } from 'node:net'

  export interface Stat {
    /** Eight bytes, big endian, like all 64-bit numbers here. */
    readonly czxid: Buffer
    readonly ctime: Buffer
    readonly ephemeralOwner: Buffer
    readonly version: number
    /** How often its children changed. */
    readonly cversion: number
    readonly numChildren: number
  }

  export class Exception extends Error {
    readonly code: number
  }

  export class State {
    readonly name: string
    static readonly DISCONNECTED: State
    static readonly SYNC_CONNECTED: State
    static readonly AUTH_FAILED: State
    static readonly EXPIRED: State
  }

  export class Id {
    constructor(scheme: string, id: string)
  }

  export class ACL {
    static readonly OPEN_ACL_UNSAFE: ACL[]
    static readonly CREATOR_ALL_ACL: ACL[]
    constructor(permission: number, id: Id)
  }

  export const CreateMode: { readonly PERSISTENT: number; readonly EPHEMERAL_SEQUENTIAL: number }

  export interface Transaction {
    create(path: string, data: Buffer, acls: readonly ACL[], mode: number): Transaction
    remove(path: string): Transaction
    check(path: string): Transaction
    commit(callback: (error: Exception | null, results?: readonly { readonly err?: number }[]) => void): void
  }

  export interface ServerAddress {
    readonly host: string
    readonly port: number | string
  }

  export interface ConnectionManager extends EventEmitter {
    socket?: Socket
    connectTimeoutHandler: NodeJS.Timeout | null
    readonly servers: ServerAddress[]
    nextServerIndex: number
    /** How many servers were tried since the last connection or pause. */
    serverAttempts: number
    readonly spinDelay: number
    readonly watcherManager: { readonly dataWatchers: Record<string, EventEmitter> }
    /** A number of the library, not a `State`. */
    readonly state: number
    pendingBuffer: Buffer | null
    /** The number of the next request. */
    xid: number
    findNextServer(callback: (server: ServerAddress) => void): void
    onSocketConnected(): void
    onSocketData(bytes: Buffer): void
    onSocketError(error: Error): void
  }

  export interface Client extends EventEmitter {
    readonly connectionManager: ConnectionManager
    readonly options: { readonly retries: number }
    connect(): void
    close(): void
    getState(): State
    getSessionId(): Buffer
    getSessionPassword(): Buffer
    getSessionTimeout(): number
    addAuthInfo(scheme: string, auth: Buffer): void
    create(
      path: string,
      data: Buffer,
      acls: readonly ACL[],
      mode: number,
      callback: (error: Exception | null, path: string) => void,
    ): void
    remove(path: string, version: number, callback: (error: Exception | null) => void): void
    exists(path: string, callback: (error: Exception | null, stat: Stat | null) => void): void
    getData(path: string, callback: (error: Exception | null, data: Buffer, stat: Stat) => void): void
    getData(
      path: string,
      watcher: () => void,
      callback: (error: Exception | null, data: Buffer, stat: Stat) => void,
    ): void
    getChildren(path: string, callback: (error: Exception | null, children: string[]) => void): void
    transaction(): Transaction
  }

  export function createClient(
    servers: string,
    options: {
      readonly sessionTimeout: number
      readonly spinDelay: number
      /** How often the library repeats a request after a lost connection. */
      readonly retries?: number
      readonly sessionId?: Buffer
      readonly sessionPassword?: Buffer
    },
  ): Client
}
