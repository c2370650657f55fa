import { migrate } from '@locks/mysql'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { mariadbQuery, startService } from '../../../conformance/services/index.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { freePorts, returnPorts } from '../../../conformance/services/ports.ts'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { findingsOf } from '../../sql/test/support/findings.ts'
import { galeraSettings, whyNoGalera, whyNoSecondNode } from './support/galera.ts'
import { bare, open } from './support/setup.ts'

const missing = await whyNoGalera()
const alone = whyNoSecondNode()
const ports = await freePorts(4)
afterAll(() => returnPorts(ports))
const [first = 0, second = 0, ...receives] = ports

async function startNode(port: number, receive: number, joins?: number): Promise<Server> {
  const settings = galeraSettings(port, receive, joins)
  const service = await startService('mariadb', { settings, needsControl: true })
  afterAll(() => service.close())
  return service.server('mariadb')
}

const node = missing === undefined ? await startNode(first, receives[0] ?? 0) : undefined
const joined =
  node !== undefined && alone === undefined ? await startNode(second, receives[1] ?? 0, first) : undefined
if (joined !== undefined) await eventually('two nodes are one cluster', () => seesTwo(joined))
if (node !== undefined) await migrate({ url: node.url })
beforeEach(async () => void (node && (await mariadbQuery(node, 'DELETE FROM locks_strategy'))))

async function seesTwo(server: Server): Promise<boolean> {
  const size = "information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_cluster_size'"
  return (await mariadbQuery(server, `SELECT VARIABLE_VALUE FROM ${size}`)) === '2'
}

test.for([
  ['unique-key', 'ok', 'unique-key spans its nodes'],
  ['row', 'danger', 'exist on one node only'],
  ['named', 'danger', 'exist on one node only'],
] as const)('%s: diagnose sees a node of a cluster', async ([strategy, level, told], { skip }) => {
  if (node === undefined) return skip(missing)
  const findings = await findingsOf(open({ url: node.url, strategy }))
  expect(findings.filter((finding) => finding.level !== 'ok').map(({ check }) => check)).toEqual(
    level === 'ok' ? [] : ['single-writer'],
  )
  const found = findings.find(({ check }) => check === 'single-writer')
  expect(found?.level).toBe(level)
  expect(found?.message).toContain(told)
})

test.for(['unique-key', 'row', 'named'])('%s: locks of one node are locks', async (strategy, { skip }) => {
  if (node === undefined) return skip(missing)
  const [holder, other] = [open({ url: node.url, strategy }), open({ url: node.url, strategy })]
  const lease = await holder.lock('one node').acquire()
  expect(await other.lock('one node').tryAcquire()).toBeNull()
  const turn = other.lock('one node').acquire({ waitMs: scaled(20_000) })
  await lease.release()
  expect((await turn).fence).toBeGreaterThan(lease.fence)
})

test(
  'unique-key: of two nodes that grant the same name at the same time, one takes it back',
  { timeout: scaled(90_000) },
  async ({ skip }) => {
    if (node === undefined || joined === undefined) return skip(missing ?? alone)
    const clients = [node, joined].map(({ url }) => bare({ url }))
    const last = new Map<string, bigint>()
    for (let round = 0; round < 200; round += 1) {
      const name = `met:${round % 20}`
      const answers = await Promise.all(clients.map(({ adapter, request }) => adapter.attempt(request(name))))
      const [won, ...more] = answers.filter((answer) => 'fence' in answer)
      expect(more).toEqual([])
      // The other node may not have received the last release yet.
      if (won === undefined) continue
      expect(won.fence).toBeGreaterThan(last.get(name) ?? 0n)
      last.set(name, won.fence)
      await clients[answers.indexOf(won)]?.adapter.release(won)
    }
    expect(last.size).toBe(20)
  },
)

test.for(['row', 'named'])(
  '%s: two nodes grant the same name, as diagnose says',
  async (strategy, { skip }) => {
    if (node === undefined || joined === undefined) return skip(missing ?? alone)
    for (const { url } of [node, joined]) {
      const client = bare({ url, strategy })
      expect(await client.take(client.request('both nodes'))).toMatchObject({ name: 'both nodes' })
    }
  },
)
