import { realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Settings } from '../service.ts'
import { fourLetterWord, zookeeperMode } from '../wire/zookeeper.ts'
import { quote, type Program, type ServerPlan } from './program.ts'
import { byVersion, directories, directoryOf, isThere, onPath } from './search.ts'

const debianJars = ['/usr/share/java/zookeeper.jar', '/usr/share/java/slf4j-simple.jar'] as const

export const zookeeperProgram: Program = {
  name: 'zookeeper',
  // Not the package `zookeeper`, which brings a whole desktop JRE.
  packages: ['libzookeeper-java', 'default-jre-headless'],
  advice: 'ZooKeeper and Java (Debian and Ubuntu: libzookeeper-java default-jre-headless; or ZOOKEEPER_HOME)',
  image: 'zookeeper:3.9',
  refusesRoot: false,
  stopSignal: 'SIGTERM',
  locate() {
    const java = directoryOf(['java'], directories(usualJava()))
    const jars = classPath()
    if (java === undefined || jars === undefined) return undefined
    return `${onPath(java)}; export CLASSPATH=${quote(jars)}`
  },
  locateInImage: [
    `if [ -e ${debianJars[0]} ]; then CLASSPATH=${debianJars.join(':')}; else`,
    'home=$(dirname "$(dirname "$(command -v zkServer.sh)")"); CLASSPATH="$home/conf:$home/lib/*"; fi',
    'export CLASSPATH',
  ].join('\n'),
}

function usualJava(): string[] {
  const home = process.env['JAVA_HOME']
  return [
    ...(home === undefined ? [] : [`${home}/bin`]),
    ...byVersion('/usr/lib/jvm', /./).map((jvm) => `${jvm}/bin`),
    '/opt/homebrew/opt/openjdk/bin',
    '/usr/local/opt/openjdk/bin',
  ]
}

function classPath(): string | undefined {
  const given = process.env['ZOOKEEPER_HOME']
  if (given !== undefined) return jarsBelow(given)
  const scripts = directoryOf(['zkServer.sh'], directories())
  if (scripts !== undefined) return jarsBelow(dirname(dirname(realpathSync(join(scripts, 'zkServer.sh')))))
  const places = ['/opt/zookeeper', '/opt/homebrew/opt/zookeeper/libexec', '/usr/local/opt/zookeeper/libexec']
  if (process.env['LOCKS_TEST_BIN_PATH'] !== undefined) return undefined
  const home = places.find((place) => isThere(join(place, 'lib')))
  if (home !== undefined) return jarsBelow(home)
  return debianJars.every(isThere) ? debianJars.join(':') : undefined
}

function jarsBelow(home: string): string {
  return `${join(home, 'conf')}:${join(home, 'lib')}/*`
}

/** Short ticks allow sessions of 400 ms and more, so that a test of an expiry takes a second or two. */
const defaults: Settings = {
  tickTime: 200,
  initLimit: 50,
  syncLimit: 20,
  minSessionTimeout: 400,
  maxSessionTimeout: 60_000,
  maxClientCnxns: 0,
  'admin.enableServer': 'false',
  '4lw.commands.whitelist': '*',
}

const java = [
  'java -Xms32m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData',
  '-Dzookeeper.jmx.log4j.disable=true -Dzookeeper.log.dir=. -Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
  'org.apache.zookeeper.server.quorum.QuorumPeerMain ./zoo.cfg',
].join(' ')

export interface ZookeeperPlan {
  readonly name: string
  readonly port: number
  readonly settings?: Settings | undefined
  readonly id?: number
  /** The `server.N` lines of an ensemble. */
  readonly members?: readonly string[]
}

export function zookeeperServer({ name, port, settings, id = 1, members = [] }: ZookeeperPlan): ServerPlan {
  return {
    name,
    port,
    url: `zookeeper://127.0.0.1:${port}`,
    launch(listen) {
      const own = { dataDir: './data', clientPort: port, clientPortAddress: listen, ...defaults, ...settings }
      const lines = [...Object.entries(own).map(([key, value]) => `${key}=${value}`), ...members]
      return { files: { 'zoo.cfg': lines.join('\n') }, prepare: `echo ${id} > data/myid`, run: java }
    },
    // A member of an ensemble may be started before there is a quorum to serve with.
    ready: (address) => (members.length > 0 ? fourLetterWord(address, 'ruok') : zookeeperMode(address)),
  }
}
