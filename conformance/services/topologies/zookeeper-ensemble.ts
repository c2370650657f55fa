import { freePorts } from '../ports.ts'
import { zookeeperProgram, zookeeperServer } from '../programs/zookeeper.ts'
import { eventually } from '../timing.ts'
import { zookeeperMode } from '../wire/zookeeper.ts'
import { countOf, hostList, portAt, type Topology } from './topology.ts'

const portsEach = 3

/** Each server has a client, a quorum and an election port. */
export const zookeeperEnsemble: Topology = {
  program: zookeeperProgram,
  ports: (options) => freePorts(countOf(options) * portsEach),
  async bring(launcher, ports, options) {
    const ids = Array.from({ length: countOf(options) }, (_, index) => index + 1)
    const portsOf = (id: number): readonly number[] => ports.slice((id - 1) * portsEach, id * portsEach)
    const members = ids.map(
      (id) => `server.${id}=127.0.0.1:${portAt(portsOf(id), 1)}:${portAt(portsOf(id), 2)}`,
    )
    const plans = ids.map((id) =>
      zookeeperServer({
        name: `node-${id}`,
        id,
        port: portAt(portsOf(id), 0),
        settings: options.settings,
        members,
      }),
    )
    const servers = await Promise.all(plans.map((plan) => launcher.launch(plan)))
    // A server answers before it binds the ports for its peers, and without those it waits forever.
    const unless = async (): Promise<Error | undefined> => {
      const [line] = /^.*address already in use.*$/im.exec(await launcher.log()) ?? []
      return line === undefined ? undefined : new Error(`a server of the ensemble says: ${line}`)
    }
    for (const server of servers)
      await eventually(`${server.name} serves`, () => zookeeperMode(server), { withinMs: 30_000, unless })
    return { url: `zookeeper://${hostList(servers)}`, servers }
  },
}
