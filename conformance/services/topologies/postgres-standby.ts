import { freePorts } from '../ports.ts'
import { postgresProgram, postgresServer } from '../programs/postgres.ts'
import { eventually } from '../timing.ts'
import { postgresQuery } from '../wire/postgres.ts'
import { hostList, portAt, type Topology } from './topology.ts'

/** A primary and a hot standby that streams from it. */
export const postgresStandby: Topology = {
  program: postgresProgram,
  ports: () => freePorts(2),
  async bring(launcher, ports, { settings }) {
    const [primaryPort, standbyPort] = [portAt(ports, 0), portAt(ports, 1)]
    const primary = await launcher.launch(postgresServer('primary', primaryPort, settings))
    const standby = await launcher.launch(postgresServer('standby', standbyPort, settings, primaryPort))
    await eventually('the standby follows', async () => {
      return (await postgresQuery(standby, 'SELECT status FROM pg_stat_wal_receiver')) === 'streaming'
    })
    const servers = [primary, standby]
    return { url: `postgres://postgres@${hostList(servers)}/postgres`, servers }
  },
}
