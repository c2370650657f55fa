import type { Clock, Finding } from '@locks/core/adapter'
import { RequestError } from './errors.ts'
import { ask, valueOf, votersOf } from './four-letter-words.ts'
import { parentOf } from './paths.ts'
import { catchUp } from './place.ts'
import { addressOf } from './quirks.ts'
import type { Session } from './session.ts'
import type { Settings } from './settings.ts'

/** The margin in which a follower may report a session late; see `Session.reliableMs`. */
const MIN_TICKS = 5

export async function diagnose(
  session: Session,
  settings: Settings,
  clock: Clock,
): Promise<readonly Finding[]> {
  const sentAt = clock.now()
  await catchUp(session.wire)
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
  ]
}

function roundTrip(tookMs: number, reliableMs: number): Finding {
  const message = `the leader answers in ${tookMs} ms`
  if (tookMs < reliableMs / 6) return { check: 'round-trip', level: 'ok', message }
  const advice = `Leases last ${reliableMs} ms and are renewed every third of that: find out what is slow, or choose a longer sessionTimeoutMs.`
  return { check: 'round-trip', level: 'warning', message, advice }
}

function sessionTimeout(timeoutMs: number, { client, sessionTimeoutMs }: Settings): Finding {
  const check = 'session-timeout'
  if (client !== undefined || timeoutMs === sessionTimeoutMs)
    return { check, level: 'ok', message: `a session lasts ${timeoutMs} ms without a sign of life` }
  return {
    check,
    level: 'warning',
    message: `${sessionTimeoutMs} ms were asked for, the servers grant ${timeoutMs} ms`,
    advice:
      'Choose sessionTimeoutMs from minSessionTimeout to maxSessionTimeout of the servers, or change these.',
  }
}

function tickTime(timeoutMs: number, text: string | undefined): Finding {
  const check = 'tick-time'
  const tickMs = Number(text ?? NaN)
  if (Number.isNaN(tickMs))
    return {
      check,
      level: 'warning',
      message: 'tickTime cannot be read: the server does not answer the command conf',
      advice: `Allow it with 4lw.commands.whitelist=srvr,conf, or see to it that sessionTimeoutMs is at least ${MIN_TICKS} ticks.`,
    }
  const message = `a tick of the servers is ${tickMs} ms, the session timeout ${timeoutMs} ms`
  if (timeoutMs >= tickMs * MIN_TICKS) return { check, level: 'ok', message }
  const advice = `A server that is cut off may report too late that a session is over: choose at least ${tickMs * MIN_TICKS} ms, or a shorter tickTime.`
  return { check, level: 'danger', message, advice }
}

function ensemble(conf: string | undefined, mode: string | undefined): Finding {
  const check = 'ensemble'
  if (mode === 'standalone')
    return {
      check,
      level: 'warning',
      message: 'there is one server only',
      advice:
        'While it is down no lock can be had, and its disk has the only copy: run three servers, or five.',
    }
  const voters = conf === undefined ? 0 : votersOf(conf)
  if (voters === 0 && mode === undefined)
    return {
      check,
      level: 'warning',
      message: 'how many servers there are cannot be read: the server answers neither srvr nor conf',
      advice:
        'Allow these with 4lw.commands.whitelist=srvr,conf, or see to it that there are three servers, or five.',
    }
  if (voters === 0) return { check, level: 'ok', message: `one of several servers, a ${mode}, is connected` }
  const spare = Math.ceil(voters / 2) - 1
  const message = `${voters} servers vote; ${spare} of them may fail`
  if (spare > 0 && voters % 2 === 1) return { check, level: 'ok', message }
  const advice = `An odd number does as well with one server less: run ${Math.max(3, voters - 1)} or ${voters + 1}.`
  return { check, level: 'warning', message, advice }
}

/** Asks the server itself, by a transaction that cannot succeed and so changes nothing. */
async function permissions({ wire }: Session, { basePath, rawPath }: Settings): Promise<Finding> {
  const check = 'permissions'
  if (rawPath)
    return { check, level: 'ok', message: 'not looked at: with rawPath every lock has its own place' }
  let place = basePath
  while (place !== '' && (await wire.exists(place)) === null) place = parentOf(place)
  const message = `nodes can be made and removed in ${place || '/'}`
  const refusal = await wire.rehearse(`${place}/diagnose-${Date.now()}`)
  if (refusal === undefined) return { check, level: 'ok', message }
  return {
    check,
    level: 'warning',
    message: `nodes cannot be ${refusal.step} in ${place || '/'}: ${new RequestError(refusal.code).message}`,
    advice: `Give this client the rights to create and delete there, by auth here or by the ACL of ${place || '/'}.`,
  }
}
