import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subject } from '@locks/core/conformance'
import { startSubject as mysqlSubject } from '../../packages/mysql/test/support/subject.ts'
import { startSubject as postgresSubject } from '../../packages/postgres/test/support/subject.ts'
import { singleSubject as redisSubject } from '../../packages/redis/test/support/subjects.ts'
import { redlockSubjects } from '../../packages/redlock/test/support/subject.ts'
import { singleSubject as zookeeperSubject } from '../../packages/zookeeper/test/support/subjects.ts'
import { startService } from '../services/index.ts'

interface Stage {
  readonly subject: Subject
  close(): Promise<unknown>
}

/** The backends of the table, each on a server of its own. */
const backends: Readonly<Record<string, () => Promise<Stage>>> = {
  'cas-file': async () => {
    const directory = await mkdtemp(join(tmpdir(), 'locks-behaviour-'))
    const subject = { name: 'cas-file', config: { adapter: '@locks/cas', store: 'file', directory } }
    return { subject, close: () => rm(directory, { recursive: true, force: true }) }
  },
  'cas-redis': async () => {
    const service = await startService('redis')
    const { host, port } = service.server('redis')
    const at = (to: { host: string; port: number }) => ({
      adapter: '@locks/cas',
      store: 'redis',
      url: `redis://${to.host}:${to.port}`,
    })
    const target = { host, port }
    return {
      subject: { name: 'cas-redis', config: at(target), wire: { target, via: at } },
      close: () => service.close(),
    }
  },
  redis: async () => {
    const { subject, service } = await redisSubject()
    return { subject, close: () => service.close() }
  },
  'redlock-3': async () => {
    const { wired, service } = await redlockSubjects(3)
    return { subject: wired, close: () => service.close() }
  },
  // Closes its server by itself.
  zookeeper: async () => ({ subject: await zookeeperSubject(), close: () => Promise.resolve() }),
  'postgres-unique-key': () => postgresSubject('unique-key'),
  'postgres-row': () => postgresSubject('row'),
  'mysql-unique-key': () => mysqlSubject('unique-key'),
  'mysql-row': () => mysqlSubject('row'),
  'mysql-named': () => mysqlSubject('named'),
}

export async function startBackend(name: string): Promise<Stage> {
  const start = backends[name]
  if (start === undefined)
    throw new Error(`no backend ${name}; there are ${Object.keys(backends).join(', ')}`)
  return start()
}
