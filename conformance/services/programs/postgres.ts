import type { Settings } from '../service.ts'
import { postgresQuery } from '../wire/postgres.ts'
import { quote, type Program, type ServerPlan } from './program.ts'
import { byVersion, directories, directoryOf, onPath } from './search.ts'

export const postgresProgram: Program = {
  name: 'postgres',
  packages: ['postgresql'],
  advice: 'a PostgreSQL server (Debian and Ubuntu: postgresql, Homebrew: postgresql@17)',
  image: 'postgres:17',
  refusesRoot: true,
  // SIGTERM would wait for the clients to leave.
  stopSignal: 'SIGINT',
  locate() {
    const directory = directoryOf(['postgres', 'initdb'], directories(usualPlaces()))
    return directory === undefined ? undefined : onPath(directory)
  },
  locateInImage:
    'for bin in /usr/lib/postgresql/*/bin; do if [ -d "$bin" ]; then PATH="$bin:$PATH"; fi; done',
}

function usualPlaces(): string[] {
  const versioned = [
    ...byVersion('/usr/lib/postgresql', /^\d+$/), // Debian
    ...byVersion('/usr', /^pgsql-\d+$/), // the project's own RPMs
    ...byVersion('/opt/homebrew/opt', /^postgresql(@\d+)?$/),
    ...byVersion('/usr/local/opt', /^postgresql(@\d+)?$/),
  ]
  return [...versioned, '/usr/local/pgsql'].map((home) => `${home}/bin`)
}

/** `fsync` stays on: crash tests rely on it. */
const defaults: Settings = { shared_buffers: '32MB', max_connections: 100 }

const initdb = 'initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync > /dev/null'

/** A copy of the server at that port, which follows it from then on. */
const copyOf = (primary: number): string =>
  `chmod 700 data; pg_basebackup -D data -h 127.0.0.1 -p ${primary} -U postgres --write-recovery-conf --checkpoint=fast --no-sync`

/** With the port of a `primary`, its hot standby. */
export function postgresServer(
  name: string,
  port: number,
  settings: Settings = {},
  primary?: number,
): ServerPlan {
  return {
    name,
    port,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    launch(listen) {
      // Clients reach a published container from the bridge, not from 127.0.0.1.
      const trustAll = listen === '127.0.0.1' ? '' : '; echo "host all all all trust" >> data/pg_hba.conf'
      const own = { listen_addresses: listen, port, unix_socket_directories: '', ...defaults, ...settings }
      const options = Object.entries(own).map(([key, value]) => `-c ${quote(`${key}=${value}`)}`)
      const filled =
        primary === undefined ? { initialise: `${initdb}${trustAll}` } : { prepare: copyOf(primary) }
      return { ...filled, run: `postgres -D data ${options.join(' ')}` }
    },
    ready: (address) => postgresQuery(address, 'SELECT 1'),
  }
}
