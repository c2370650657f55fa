import { danger, ok, warning, worstFindings } from '@locks/core/adapter'
import type { Finding, WorstFinding } from '@locks/core/adapter'
import type { Nodes } from './nodes.ts'
import { answerOf, valuesOf } from './nodes.ts'

/** A diagnosis takes a handful of round trips, the first over a new connection. */
const DIAGNOSIS_MS = 4_000

/** Advice for one of several servers, where it differs from that for a single one. */
const otherAdvice = new Map([
  [
    'persistence',
    'set appendonly yes and appendfsync always on every node, or keep a crashed one down longer than the longest ttl',
  ],
  ['replication', 'let nodes be independent primaries: a replica that takes over may let in a second holder'],
])

/** How many nodes there are and answer; then the worst finding of each check on the nodes. */
export async function diagnose(nodes: Nodes): Promise<readonly Finding[]> {
  const { all, quorum } = nodes
  const answers = await nodes.ask(
    async (node) => ({ identity: await node.identity(), findings: await node.diagnose() }),
    { enough: () => false, timeoutMs: DIAGNOSIS_MS },
  )
  const up = valuesOf(answers).length
  if (up === 0) throw nodes.outage('no node answers', answers)
  const worst = worstFindings(answers.map((answer) => answerOf(answer)?.findings ?? []))
  // Of those that answer: null where a node does not say which server it is.
  const identities = answers.map((answer) => {
    const said = answerOf(answer)
    return said && (said.identity?.server ?? null)
  })
  return [
    countFinding(all.length, quorum),
    reachFinding(nodes, up, answers),
    independenceFinding(identities),
    ...worst.map((one) => onNodes(one, all.length)),
  ]
}

function onNodes({ finding, servers }: WorstFinding, count: number): Finding {
  const numbers = servers.map((index) => index + 1)
  const who = numbers.length === count ? 'every node' : `node ${numbers.join(', ')}`
  const message = `${who}: ${finding.message}`
  if (finding.level === 'ok') return { ...finding, message }
  const advice = otherAdvice.get(finding.check) ?? finding.advice
  return { ...finding, message, ...(advice === undefined ? {} : { advice }) }
}

function countFinding(count: number, quorum: number): Finding {
  const check = 'node-count'
  const spare = count - quorum
  const message = `${count} nodes, of which ${quorum} must agree: ${spare === 0 ? 'none' : spare} may be down`
  if (spare > 0 && count % 2 === 1) return ok(check, message)
  const advice = 'use three or five nodes: an even number tolerates no more failures, and splits more votes'
  return warning(check, message, advice)
}

function reachFinding(nodes: Nodes, up: number, answers: Parameters<Nodes['outage']>[1]): Finding {
  const check = 'nodes-reachable'
  if (up === nodes.all.length) return ok(check, `all ${up} nodes answer`)
  const { message } = nodes.outage(up < nodes.quorum ? 'no lock can be acquired' : 'some nodes fail', answers)
  return warning(check, message, 'start the nodes that fail, or check the network')
}

/** One server under two addresses, or with several databases. */
function independenceFinding(identities: readonly (string | null | undefined)[]): Finding {
  const check = 'independent-servers'
  const shared = identities.flatMap((one, index) =>
    typeof one === 'string' && identities.filter((other) => other === one).length > 1 ? [index + 1] : [],
  )
  const silent = identities.flatMap((one, index) => (one === null ? [index + 1] : []))
  if (shared.length === 0 && silent.length > 0)
    return warning(
      check,
      `node ${silent.join(', ')} does not say which server it is: one server under two addresses is not refused`,
      'permit INFO, or make sure that every node has its own server',
    )
  if (shared.length === 0) return ok(check, 'every node is another server')
  return danger(
    check,
    `nodes ${shared.join(', ')} share a server: it fails as one and votes as several`,
    'give every node its own server',
  )
}
