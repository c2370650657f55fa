import { freePorts } from '../ports.ts'
import { redisProgram, redisServer } from '../programs/redis.ts'
import { countOf, type Topology } from './topology.ts'

/** Servers that know nothing of each other, for Redlock. */
export const redisIndependent: Topology = {
  program: redisProgram,
  ports: (options) => freePorts(countOf(options)),
  async bring(launcher, ports, { settings }) {
    const plans = ports.map((port, index) => redisServer({ name: `node-${index + 1}`, port, settings }))
    const servers = await Promise.all(plans.map((plan) => launcher.launch(plan)))
    return { url: servers.map(({ url }) => url).join(','), servers }
  },
}
