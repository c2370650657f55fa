import { danger, ok, warning } from '@locks/core/adapter'
import type { Clock, Finding } from '@locks/core/adapter'
import { reasonOf } from './errors.ts'
import { ask, valueOf, votersOf } from './four-letter-words.ts'
import { leftoversFinding } from './leftovers.ts'
import { parentOf } from './paths.ts'
import { addressOf } from './quirks.ts'
import type { Session } from './session.ts'
import type { Settings } from './settings.ts'

/** A shorter session leaves no margin for a follower that reports late; see `Session.reliableMs`. */
const MIN_TICKS = 5

export async function diagnose(
  session: Session,
  settings: Settings,
  clock: Clock,
): Promise<readonly Finding[]> {
  const sentAt = clock.now()
  await session.requests.catchUp()
  const tookMs = Math.ceil(clock.now() - sentAt)
  const address = addressOf(session.client)
  const [conf, srvr] =
    address === undefined ? [] : await Promise.all([ask(address, 'conf', clock), ask(address, 'srvr', clock)])
  return [
    roundTrip(tookMs, session.reliableMs),
    sessionTimeout(session.timeoutMs, settings),
    tickTime(session.timeoutMs, valueOf(conf, 'tickTime')),
    ensemble(conf, valueOf(srvr, 'Mode')),
    await permissions(session, settings),
    await leftoversFinding(session.requests, settings),
  ]
}

function roundTrip(tookMs: number, reliableMs: number): Finding {
  const message = `the leader answers in ${tookMs} ms`
  if (tookMs < reliableMs / 6) return ok('round-trip', message)
  const advice =
    'find out what is slow, or choose a longer sessionTimeoutMs: ' +
    `leases last ${reliableMs} ms and are renewed every third of that`
  return warning('round-trip', message, advice)
}

function sessionTimeout(timeoutMs: number, { client, sessionTimeoutMs }: Settings): Finding {
  if (client !== undefined || timeoutMs === sessionTimeoutMs)
    return ok('session-timeout', `a session lasts ${timeoutMs} ms without a sign of life`)
  const message = `sessionTimeoutMs is ${sessionTimeoutMs} ms, but the servers grant ${timeoutMs} ms`
  const advice = 'choose a value from minSessionTimeout to maxSessionTimeout of the servers, or change these'
  return warning('session-timeout', message, advice)
}

function tickTime(timeoutMs: number, text: string | undefined): Finding {
  const check = 'tick-time'
  const tickMs = Number(text ?? NaN)
  if (Number.isNaN(tickMs)) {
    const message = 'tickTime cannot be read: the server does not answer the command conf'
    const advice =
      'allow the command with 4lw.commands.whitelist=srvr,conf, ' +
      `or make sure that sessionTimeoutMs is at least ${MIN_TICKS} ticks`
    return warning(check, message, advice)
  }
  const message = `a tick of the servers is ${tickMs} ms, the session timeout ${timeoutMs} ms`
  if (timeoutMs >= tickMs * MIN_TICKS) return ok(check, message)
  const advice =
    `choose at least ${tickMs * MIN_TICKS} ms, or a shorter tickTime: ` +
    'a server that is cut off may report too late that a session is over'
  return danger(check, message, advice)
}

function ensemble(conf: string | undefined, mode: string | undefined): Finding {
  const check = 'ensemble'
  if (mode === 'standalone') {
    const advice =
      'run three or five servers: while it is down no lock can be acquired, and its disk has the only copy'
    return warning(check, 'there is only one server', advice)
  }
  const voters = conf === undefined ? 0 : votersOf(conf)
  if (voters === 0 && mode === undefined) {
    const message = 'the number of servers cannot be read: the server answers neither srvr nor conf'
    const advice =
      'allow these with 4lw.commands.whitelist=srvr,conf, or make sure that there are three or five servers'
    return warning(check, message, advice)
  }
  if (voters === 0) return ok(check, `connected to one of several servers, a ${mode}`)
  const spare = Math.ceil(voters / 2) - 1
  const message = `${voters} servers vote; ${spare} of them may fail`
  if (spare > 0 && voters % 2 === 1) return ok(check, message)
  const advice = `run ${Math.max(3, voters - 1)} or ${voters + 1}: one server less tolerates as many failures`
  return warning(check, message, advice)
}

/** Asks the server, with a transaction that cannot succeed and so changes nothing. */
async function permissions({ requests }: Session, { basePath, rawPath }: Settings): Promise<Finding> {
  const check = 'permissions'
  if (rawPath) return ok(check, 'not checked: with rawPath every lock has its own path')
  let parent = basePath
  while (parent !== '' && (await requests.exists(parent)) === null) parent = parentOf(parent)
  const shown = parent || '/'
  const refusal = await requests.rehearse(`${parent}/diagnose-${Date.now()}`)
  if (refusal === undefined) return ok(check, `nodes can be created and deleted in ${shown}`)
  const message = `nodes cannot be ${refusal.step} in ${shown}: ${reasonOf(refusal.code)}`
  const advice = `give this client the create and delete permissions there, by auth or by the ACL of ${shown}`
  return warning(check, message, advice)
}
