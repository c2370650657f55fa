export { selectedKinds } from './families.ts'
export { prepareServices } from './prepare.ts'
export type {
  Address,
  RestartOptions,
  Server,
  Service,
  ServiceKind,
  ServiceOptions,
  Settings,
  Source,
} from './service.ts'
export { startService } from './start-service.ts'
export {
  currentPrimary,
  cutReplication,
  healReplication,
  sentinelPrimaryName,
} from './topologies/redis-sentinel.ts'
export { mariadbQuery } from './wire/mariadb.ts'
export { postgresQuery } from './wire/postgres.ts'
export { redisCommand, redisConversation, redisFields, type RedisReply } from './wire/redis.ts'
export { fourLetterWord, zookeeperCreate, zookeeperExists, zookeeperMode } from './wire/zookeeper.ts'
