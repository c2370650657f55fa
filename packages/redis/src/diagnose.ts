import { isRecord } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import { isCluster } from './client.ts'
import type { Connection, Primary } from './connection.ts'
import { repliedWith } from './errors.ts'
import {
  evictionFinding,
  failoverFinding,
  persistenceFinding,
  replicationFinding,
  versionFinding,
} from './findings.ts'
import { leftoversFinding } from './tokens.ts'

const SETTINGS = ['appendfsync', 'save', 'min-replicas-to-write'] as const

/** Beyond this a server's clock is thought to be wrong, or this machine's. */
const CLOCK_MS = 1_000

/** Beyond this, leases of a second or two are hard to keep. */
const ROUND_TRIP_MS = 100

const severity = { ok: 0, warning: 1, danger: 2 } as const

/** What every primary says about itself; where several do, the worst of each check. */
export async function diagnose(connection: Connection, waitForReplicas: number): Promise<readonly Finding[]> {
  const primaries = await connection.primaries()
  const worst = new Map<string, Finding>()
  for (const primary of primaries)
    for (const finding of await findingsOf(primary, connection.cluster, waitForReplicas)) {
      const known = worst.get(finding.check)
      if (known !== undefined && severity[known.level] >= severity[finding.level]) continue
      const message = primaries.length > 1 ? `${primary.at}: ${finding.message}` : finding.message
      worst.set(finding.check, { ...finding, message })
    }
  const leftovers = await allowed(() => leftoversFinding(connection))
  return [...worst.values(), ...failoverFindings(connection), ...(leftovers ? [leftovers] : [])]
}

/** Behind Sentinels only. */
function failoverFindings({ client, owned }: Connection): readonly Finding[] {
  if (isCluster(client) || !client.options.sentinels) return []
  return [failoverFinding(owned || client.options.failoverDetector === true)]
}

async function findingsOf(
  primary: Primary,
  cluster: boolean,
  waitForReplicas: number,
): Promise<readonly Finding[]> {
  const findings = await timeFindings(primary)
  const info = await allowed(async () => String(await primary.ask('info')))
  const settings = await allowed(() => settingsOf(primary))
  if (info === undefined)
    findings.push(unread('info', 'INFO', 'version, eviction, persistence and replication'))
  else
    findings.push(
      versionFinding(info, cluster),
      evictionFinding(info),
      persistenceFinding(info, settings),
      replicationFinding(info, settings, waitForReplicas),
    )
  if (settings === undefined) findings.push(unread('config', 'CONFIG GET', SETTINGS.join(', ')))
  return findings
}

/** The server's clock against this machine's, which may differ by as much as the answer took. */
async function timeFindings({ ask }: Primary): Promise<Finding[]> {
  // The first answer may have had to wait for a connection.
  await ask('time')
  const [sentAt, startedAt] = [Date.now(), performance.now()]
  const reply = await ask('time')
  const roundTripMs = performance.now() - startedAt
  const [seconds, micros] = Array.isArray(reply) ? reply.map(Number) : []
  const offsetMs = (seconds ?? NaN) * 1_000 + (micros ?? NaN) / 1_000 - (sentAt + roundTripMs / 2)
  const surelyMs = Math.max(0, Math.abs(offsetMs) - roundTripMs / 2)
  const told = `${Math.round(Math.abs(offsetMs))} ms ${offsetMs < 0 ? 'behind' : 'ahead of'} this machine's, give or take ${Math.ceil(roundTripMs / 2)}`
  const clock: Finding = { check: 'clock', level: 'ok', message: `the server's clock is ${told}` }
  const roundTrip: Finding = {
    check: 'round-trip',
    level: 'ok',
    message: `the server answers within ${roundTripMs.toFixed(1)} ms`,
  }
  return [
    surelyMs <= CLOCK_MS
      ? clock
      : {
          ...clock,
          level: 'warning',
          advice:
            'let NTP slew clocks instead of stepping them: a step ahead ends leases early, a step back keeps the lock ' +
            'of a crashed holder for as much longer, and after a failover to a clock that is behind, fences repeat',
        },
    roundTripMs <= ROUND_TRIP_MS
      ? roundTrip
      : {
          ...roundTrip,
          level: 'warning',
          advice: 'give leases at least ten times as long as an answer takes',
        },
  ]
}

async function settingsOf({ ask }: Primary): Promise<ReadonlyMap<string, string>> {
  const settings = new Map<string, string>()
  for (const name of SETTINGS) {
    const reply = await ask('config', 'get', name)
    const value: unknown = Array.isArray(reply) ? reply[1] : isRecord(reply) ? reply[name] : undefined
    if (typeof value === 'string') settings.set(name, value)
  }
  return settings
}

/** Undefined when the user may not ask that; an outage is one all the same. */
async function allowed<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    // Where a service does not offer a command, it is an unknown one.
    if (repliedWith(error, 'NOPERM', 'ERR')) return undefined
    throw error
  }
}

function unread(check: string, command: string, what: string): Finding {
  return {
    check,
    level: 'warning',
    message: `this user may not call ${command}: nothing is known about ${what}`,
    advice: `permit ${command}, or look at these settings yourself`,
  }
}
