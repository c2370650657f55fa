import type { ServiceKind } from '../service.ts'
import { postgresStandby } from './postgres-standby.ts'
import { redisCluster } from './redis-cluster.ts'
import { redisIndependent } from './redis-independent.ts'
import { redisSentinel } from './redis-sentinel.ts'
import { mariadb, postgres, redis, zookeeper } from './single.ts'
import type { Topology } from './topology.ts'
import { zookeeperEnsemble } from './zookeeper-ensemble.ts'

export const topologies: Readonly<Record<ServiceKind, Topology>> = {
  redis,
  'redis-independent': redisIndependent,
  'redis-sentinel': redisSentinel,
  'redis-cluster': redisCluster,
  postgres,
  'postgres-standby': postgresStandby,
  mariadb,
  zookeeper,
  'zookeeper-ensemble': zookeeperEnsemble,
}
