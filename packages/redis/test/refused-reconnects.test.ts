import { Cluster, Redis } from 'ioredis'
import { onTestFinished, test } from 'vitest'
import { sentinelPrimaryName, startService } from '../../../conformance/services/index.ts'
import type { Address, Service } from '../../../conformance/services/index.ts'
import {
  expectNothingMixedUp,
  refusedRounds,
  refusedRoundsMs,
  refuseReconnects,
} from '../../../conformance/test-support/refused-reconnects.ts'
import { connect } from './support/bed.ts'

// A connection that is refused in the middle of ioredis' handshake must not shift replies by one command.

const patient = { storeTimeoutMs: 20_000 }

function addressOf({ host, port }: Address): Address {
  return { host, port }
}

function sentinelsOf({ servers }: Service): { sentinels: Address[]; name: string } {
  const sentinels = servers.filter(({ name }) => name.startsWith('sentinel'))
  return { sentinels: sentinels.map(addressOf), name: sentinelPrimaryName }
}

function ended<C extends Redis | Cluster>(client: C): C {
  onTestFinished(() => client.disconnect())
  client.on('error', () => undefined)
  return client
}

test(
  'a refused reconnect grants nothing twice: a client of our own',
  { timeout: refusedRoundsMs },
  async () => {
    await using service = await startService('redis', { needsControl: true })
    const options = { connection: addressOf(service.server('redis')) }
    const [holder, other] = [connect(options, patient), connect(options, patient)]
    expectNothingMixedUp(await refuseReconnects({ holder, other, servers: service.servers }, refusedRounds))
  },
)

test(
  "a refused reconnect grants nothing twice: the user's client",
  { timeout: refusedRoundsMs },
  async () => {
    await using service = await startService('redis', { needsControl: true })
    const address = addressOf(service.server('redis'))
    const holder = connect({ connection: address }, patient)
    const other = connect({ client: ended(new Redis(address)) }, patient)
    expectNothingMixedUp(await refuseReconnects({ holder, other, servers: service.servers }, refusedRounds))
  },
)

// By RESP2, SELECT is the first command of a connection and gets the refusal as its answer.
test.each(['own', "the user's"])(
  'a refused reconnect grants nothing twice: database 1 by RESP2, %s client',
  { timeout: refusedRoundsMs },
  async (whose) => {
    await using service = await startService('redis', { needsControl: true })
    const connection = { ...addressOf(service.server('redis')), db: 1, protocol: 2 } as const
    const holder = connect({ connection }, patient)
    const other = connect(
      whose === 'own' ? { connection } : { client: ended(new Redis(connection)) },
      patient,
    )
    const clients = { holder, other, servers: service.servers }
    expectNothingMixedUp(await refuseReconnects(clients, refusedRounds))
  },
)

test.each(['own', "the user's"])(
  'a refused reconnect grants nothing twice: Sentinel, %s client',
  { timeout: refusedRoundsMs },
  async (whose) => {
    const sentinelSettings = { 'down-after-milliseconds': 60_000 }
    await using service = await startService('redis-sentinel', { sentinelSettings, needsControl: true })
    const connection = sentinelsOf(service)
    const holder = connect({ connection }, patient)
    const other = connect(
      whose === 'own' ? { connection } : { client: ended(new Redis(connection)) },
      patient,
    )
    const servers = [service.server('primary')]
    expectNothingMixedUp(await refuseReconnects({ holder, other, servers }, refusedRounds))
  },
)

test.each(['own', "the user's"])(
  'a refused reconnect grants nothing twice: Cluster, %s client',
  { timeout: refusedRoundsMs },
  async (whose) => {
    await using service = await startService('redis-cluster', { needsControl: true })
    const nodes = service.servers.map(addressOf)
    const holder = connect({ cluster: { nodes } }, patient)
    const other = connect(
      whose === 'own' ? { cluster: { nodes } } : { client: ended(new Cluster(nodes)) },
      patient,
    )
    const clients = { holder, other, servers: service.servers, prefix: '{06S}:' }
    expectNothingMixedUp(await refuseReconnects(clients, refusedRounds))
  },
)
