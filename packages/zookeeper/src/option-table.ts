import { isRecord, isWhole } from '@locks/core/adapter'
import type { Duration } from '@locks/core/adapter'

export const declared = {
  adapter: '@locks/zookeeper',
  example: "{ url: 'zookeeper://host' }",
  options: {
    /** `zookeeper://[user:password@]host:port,host:port[/chroot]`, with options behind `?`. */
    url: {
      kind: 'text',
      must: 'be zookeeper://[user:password@]host:port,host:port[/chroot][?option=value]',
      place: true,
    },
    /** `host:port,host:port[/chroot]`. The chroot must exist. */
    servers: { kind: 'text', must: 'be host:port,host:port with an optional /chroot', place: true },
    /** A client of your own, connected and closed by you. Its session holds the locks. */
    client: {
      kind: 'value',
      must: 'be a client of node-zookeeper-client',
      type: 'ZookeeperClient',
      place: true,
    },
    /** Credentials of the session: `{ scheme: 'digest', credentials: 'user:password' }`, or several. */
    auth: {
      kind: 'value',
      must: 'be { scheme, credentials } with texts, or a list of these',
      type: 'ZookeeperAuth | readonly ZookeeperAuth[]',
      json: 'ZookeeperAuth | readonly ZookeeperAuth[]',
      is: (value: unknown): value is ZookeeperAuth | readonly ZookeeperAuth[] =>
        Array.isArray(value) ? value.every(isAuth) : isAuth(value),
      notWith: 'client',
    },
    /** Who may use the nodes made here: `open`, `creator`, or a list of `{ scheme, id, permissions }`. */
    acl: {
      kind: 'value',
      must: 'be "open", "creator" or a list of { scheme, id, permissions: 1 to 31 }',
      type: "'open' | 'creator' | readonly ZookeeperAclEntry[]",
      json: "'open' | 'creator' | readonly ZookeeperAcl[]",
      is: (value: unknown): value is Acl => isAcl(value),
      otherwise: '`creator` with `auth`, `open` without',
      inUrl: true,
    },
    /** Requested session timeout; the server may grant another. A crashed holder blocks its locks for this long. */
    sessionTimeoutMs: {
      kind: 'duration',
      range: [100, 3_600_000],
      default: 30_000,
      inUrl: true,
      notWith: 'client',
    },
    /** Where the locks are. A name becomes one segment below it, percent-encoded where needed. */
    basePath: {
      kind: 'text',
      must: 'be an absolute ZooKeeper path such as /locks',
      default: '/locks',
      inUrl: true,
    },
    /** `true`: a lock's name is its path, to share it with Curator. */
    rawPath: { kind: 'boolean', default: false, inUrl: true },
  },
} as const

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

export type Acl = 'open' | 'creator' | readonly ZookeeperAclEntry[]

function isAuth(value: unknown): boolean {
  return isRecord(value) && isText(value['scheme']) && isText(value['credentials'])
}

function isAcl(value: unknown): boolean {
  if (value === 'open' || value === 'creator') return true
  return Array.isArray(value) && value.length > 0 && value.every(isAclEntry)
}

function isAclEntry(value: unknown): boolean {
  if (!isRecord(value) || !isText(value['scheme']) || typeof value['id'] !== 'string') return false
  return isWhole(value['permissions'], [1, 31])
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

/** A client made by node-zookeeper-client. */
export interface ZookeeperClient {
  getState(): object
  getSessionId(): Uint8Array
  getSessionTimeout(): number
}

/** Where ZooKeeper is, by one of `url`, `servers` and `client`, and how locks are kept there. */
// <options ZookeeperOptions>
export interface ZookeeperOptions {
  /** `zookeeper://[user:password@]host:port,host:port[/chroot]`, with options behind `?`. */
  readonly url?: string
  /** `host:port,host:port[/chroot]`. The chroot must exist. */
  readonly servers?: string
  /** A client of your own, connected and closed by you. Its session holds the locks. */
  readonly client?: ZookeeperClient
  /** Credentials of the session: `{ scheme: 'digest', credentials: 'user:password' }`, or several. */
  readonly auth?: ZookeeperAuth | readonly ZookeeperAuth[]
  /**
   * Who may use the nodes made here: `open`, `creator`, or a list of `{ scheme, id, permissions }`. Default: `creator`
   * with `auth`, `open` without.
   */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAclEntry[]
  /**
   * Requested session timeout; the server may grant another. A crashed holder blocks its locks for this long. Default:
   * 30 s.
   */
  readonly sessionTimeoutMs?: Duration
  /** Where the locks are. A name becomes one segment below it, percent-encoded where needed. Default: `/locks`. */
  readonly basePath?: string
  /** `true`: a lock's name is its path, to share it with Curator. Default: `false`. */
  readonly rawPath?: boolean
}
// </options>
