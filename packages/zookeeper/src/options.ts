import type { Duration } from '@locks/core/adapter'

export interface ZookeeperAuth {
  /** `digest`, or what else the servers know. */
  readonly scheme: string
  /** For `digest`: `user:password`. */
  readonly credentials: string
}

export interface ZookeeperAclEntry {
  readonly scheme: string
  readonly id: string
  /** The sum of 1 read, 2 write, 4 create, 8 delete, 16 admin. */
  readonly permissions: number
}

/** A client made by node-zookeeper-client. */
export interface ZookeeperClient {
  getState(): object
  getSessionId(): Uint8Array
  getSessionTimeout(): number
}

export interface ZookeeperOptions {
  /** `zookeeper://[user:password@]host:port,host:port[/chroot][?sessionTimeoutMs=…&basePath=…&rawPath=true&acl=…]` */
  readonly url?: string
  /** Instead of a URL: `host:port,host:port[/chroot]`. The chroot must exist. */
  readonly servers?: string
  /** Instead of either: your own client, connected and closed by you, whose session then holds the locks. */
  readonly client?: ZookeeperClient
  /** Who the session is: `{ scheme: 'digest', credentials: 'user:password' }`, or several. */
  readonly auth?: ZookeeperAuth | readonly ZookeeperAuth[]
  /** Of the nodes made here: `creator` if there is `auth`, `open` otherwise. */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAclEntry[]
  /** Asked of the server, 30 s unless told. A crashed holder blocks its locks for this long. */
  readonly sessionTimeoutMs?: Duration
  /** Where the locks are, `/locks` unless told. */
  readonly basePath?: string
  /** Lock names are paths: to share locks with Curator programs that use these paths. */
  readonly rawPath?: boolean
}
