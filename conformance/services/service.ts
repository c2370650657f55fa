/** The topologies this folder can run. */
export type ServiceKind =
  | 'redis'
  | 'redis-independent'
  | 'redis-sentinel'
  | 'redis-cluster'
  | 'postgres'
  | 'postgres-standby'
  | 'mariadb'
  | 'zookeeper'
  | 'zookeeper-ensemble'

/** Where a service came from; `apt` means that this very call had to install it. */
export type Source = 'environment' | 'container' | 'binary' | 'apt'

export interface Address {
  readonly host: string
  readonly port: number
}

/**
 * One server. Its port never changes, whatever is done to it.
 *
 * Every control method rejects when the server was given by the environment (`Service.control` is
 * false). Otherwise it resolves once the effect can be seen from outside: `start` when the server
 * answers its own protocol, `stop` and `kill` when its processes are gone, `pause` when none of them
 * runs any more.
 */
export interface Server extends Address {
  /** What the server is within its service: `redis`, `primary`, `replica`, `sentinel-2`, `node-1`. */
  readonly name: string
  readonly url: string
  /** The main process, while one runs on this machine; never set for a container. */
  readonly pid: number | undefined
  /** Data, settings and log of the server; undefined when they are not on this machine. */
  readonly directory: string | undefined
  /** Does nothing when the server already runs. */
  start(): Promise<void>
  /** Graceful, as an administrator would do it. A paused server is resumed first. */
  stop(): Promise<void>
  /** SIGKILL of every process of the server at once; what it had not made durable is lost. */
  kill(): Promise<void>
  /** Freezes every process; connections stay open and nothing answers. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Data is kept as far as the server made it durable, unless `wipe`; `hard` kills instead of stopping. */
  restart(options?: RestartOptions): Promise<void>
  /** Signals one process of the server by the id the server itself reports, such as `pg_backend_pid()`. */
  signal(pid: number, signal: NodeJS.Signals): Promise<void>
}

export interface RestartOptions {
  readonly wipe?: boolean
  readonly hard?: boolean
}

export interface Service extends AsyncDisposable {
  readonly kind: ServiceKind
  readonly source: Source
  /**
   * One string that names the whole service, in the form its environment variable takes:
   * a plain URL, `redis://…,redis://…` for independent servers, `redis-sentinel://h:p,h:p/primary-name`,
   * `redis-cluster://h:p,h:p`, `zookeeper://h:p,h:p`.
   */
  readonly url: string
  readonly servers: readonly Server[]
  /** Whether the servers are ours to stop, kill and pause. */
  readonly control: boolean
  /** Finds a server by its name; throws when there is none, so that a typo does not pass for a fault. */
  server(name: string): Server
  /** Ends every process and removes every file. Safe to call twice. */
  close(): Promise<void>
}

export type Settings = Readonly<Record<string, string | number>>

export interface ServiceOptions {
  /**
   * Server settings, by the server's own names, laid over the defaults of this folder. A service that was
   * given by the environment cannot be changed, so asking for settings always starts a private one.
   */
  readonly settings?: Settings
  /** Settings of the sentinels for their primary, such as `down-after-milliseconds`. */
  readonly sentinelSettings?: Settings
  /**
   * How many servers, for `redis-independent`, `redis-cluster` and `zookeeper-ensemble`. Default 3. For
   * `redis-sentinel`, how many replicas. Default 1.
   */
  readonly count?: number
  /** Environment of the server processes, for instance to preload a library. */
  readonly env?: Readonly<Record<string, string>>
  /** The test will stop, kill or pause servers: pass over a service given by the environment. */
  readonly needsControl?: boolean
}
