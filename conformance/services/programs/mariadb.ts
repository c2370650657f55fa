import type { Settings } from '../service.ts'
import { mariadbQuery } from '../wire/mariadb.ts'
import { flags, type Program, type ServerPlan } from './program.ts'
import { byVersion, directories, directoryOf, onPath } from './search.ts'

export const mariadbProgram: Program = {
  name: 'mariadb',
  packages: ['mariadb-server-core', 'mariadb-client-core'],
  advice: 'a MariaDB server (Debian and Ubuntu: mariadb-server, Homebrew: mariadb)',
  image: 'mariadb:11.4',
  refusesRoot: true,
  stopSignal: 'SIGTERM',
  locate() {
    const among = directories(usualPlaces())
    const server = directoryOf(['mariadbd'], among)
    const installer = directoryOf(['mariadb-install-db'], among)
    return server === undefined || installer === undefined ? undefined : onPath(server, installer)
  },
  locateInImage: 'PATH="$PATH:/usr/sbin"',
}

function usualPlaces(): string[] {
  return [
    ...byVersion('/opt/homebrew/opt', /^mariadb(@[\d.]+)?$/),
    ...byVersion('/usr/local/opt', /^mariadb(@[\d.]+)?$/),
    '/usr/local/mysql',
  ].flatMap((home) => [`${home}/bin`, `${home}/scripts`])
}

/** Durability is the server's own default, a flush at every commit: crash tests rely on it. */
const defaults: Settings = {
  'skip-name-resolve': 'ON',
  'innodb-buffer-pool-size': '32M',
  'innodb-log-file-size': '16M',
  'character-set-server': 'utf8mb4',
}

// A server that starts removes what looks like temporary tables from its directory for them, those of its
// neighbours too if they share one.
const temporary = 'mkdir -p tmp'

// The same log size as later, or the first start would write it anew. As an option, its directory for temporary
// tables could have no blank in its name.
const install = [
  'TMPDIR="$PWD/tmp" mariadb-install-db --no-defaults --datadir="$PWD/data" --innodb-log-file-size=16M',
  '--auth-root-authentication-method=normal --skip-test-db --skip-name-resolve > install.log 2>&1',
].join(' ')

/** Runs at every start, hence IF NOT EXISTS. */
const account = [
  'CREATE DATABASE IF NOT EXISTS locks;',
  "CREATE USER IF NOT EXISTS locks@'%';",
  "GRANT ALL PRIVILEGES ON *.* TO locks@'%' WITH GRANT OPTION;",
].join('\n')

export function mariadbServer(name: string, port: number, settings: Settings = {}): ServerPlan {
  return {
    name,
    port,
    url: `mysql://locks@127.0.0.1:${port}/locks`,
    launch(listen) {
      const own = { 'bind-address': listen, port, ...defaults, ...settings }
      const places = [
        'datadir=$PWD/data',
        'tmpdir=$PWD/tmp',
        'socket=$PWD/server.sock',
        'pid-file=$PWD/server.pid',
        'init-file=$PWD/account.sql',
      ]
      return {
        files: { 'account.sql': account },
        prepare: temporary,
        initialise: `${install} || { head -n 9 install.log; exit 1; }`,
        run: `mariadbd --no-defaults ${places.map((place) => `"--${place}"`).join(' ')} ${flags(own)}`,
      }
    },
    ready: (address) => mariadbQuery(address, 'SELECT 1'),
  }
}
