import { isRecord, ok, warning, worstFindings } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import type { Connection, Primary } from './connection.ts'
import {
  allowed,
  evictionFinding,
  failoverFinding,
  persistenceFinding,
  replicationFinding,
  versionFinding,
} from './findings.ts'
import { leftoversFinding } from './tokens.ts'

const SETTINGS = ['appendfsync', 'save', 'min-replicas-to-write'] as const

/** Beyond this either clock is probably wrong. */
const CLOCK_MS = 1_000

/** Beyond this, leases of a second or two are hard to keep. */
const ROUND_TRIP_MS = 100

/** Findings about every primary; of several, the worst of each check. */
export async function diagnose(connection: Connection, waitForReplicas: number): Promise<readonly Finding[]> {
  const primaries = await connection.primaries()
  const all: (readonly Finding[])[] = []
  for (const primary of primaries) all.push(await findingsAt(primary, connection.cluster, waitForReplicas))
  const worst = worstFindings(all).map(({ finding, servers: [first = 0] }) => {
    const message = primaries.length > 1 ? `${primaries[first]?.at}: ${finding.message}` : finding.message
    return { ...finding, message }
  })
  const leftovers = await allowed(() => leftoversFinding(connection))
  const { leavesReplaced } = connection
  const failover = leavesReplaced === undefined ? undefined : failoverFinding(leavesReplaced)
  return [...worst, failover, leftovers].filter((finding) => finding !== undefined)
}

async function findingsAt(
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

/** The difference of the clocks is known up to the time that the answer took. */
async function timeFindings({ ask }: Primary): Promise<Finding[]> {
  // The first answer may include the time to connect.
  await ask('time')
  const [sentAt, startedAt] = [Date.now(), performance.now()]
  const reply = await ask('time')
  const roundTripMs = performance.now() - startedAt
  const [seconds, micros] = Array.isArray(reply) ? reply.map(Number) : []
  const offsetMs = (seconds ?? NaN) * 1_000 + (micros ?? NaN) / 1_000 - (sentAt + roundTripMs / 2)
  const surelyMs = Math.max(0, Math.abs(offsetMs) - roundTripMs / 2)
  const offset = `${Math.round(Math.abs(offsetMs))} ms ${offsetMs < 0 ? 'behind' : 'ahead of'} this machine's`
  const clock = `the server's clock is ${offset}, give or take ${Math.ceil(roundTripMs / 2)}`
  const roundTrip = `the server answers within ${roundTripMs.toFixed(1)} ms`
  return [
    surelyMs <= CLOCK_MS
      ? ok('clock', clock)
      : warning(
          'clock',
          clock,
          'let NTP slew clocks instead of stepping them: a step ahead ends leases early, a step back keeps the lock ' +
            'of a crashed holder for as much longer, and after a failover to a clock that is behind, fences repeat',
        ),
    roundTripMs <= ROUND_TRIP_MS
      ? ok('round-trip', roundTrip)
      : warning('round-trip', roundTrip, 'give leases at least ten times as long as an answer takes'),
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

function unread(check: string, command: string, what: string): Finding {
  return warning(
    check,
    `this user may not call ${command}: nothing is known about ${what}`,
    `permit ${command}, or check these settings yourself`,
  )
}
