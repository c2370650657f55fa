import type { Clock } from '@locks/core/adapter'
import type { HoldInfo, SessionDriver, Tried } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import type { Carriers } from './carriers.ts'
import type { Row } from './connection.ts'
import { errors, isEnd, isEndOfWait } from './errors.ts'
import { keyMaker } from './holders.ts'
import type { HolderTable } from './holders.ts'
import type { Settings } from './options.ts'
import type { Share } from './share.ts'

/** A lock is an advisory lock of a session, which many holds share. The key of a hold is another one. */
export function advisoryDriver(
  settings: Settings,
  carriers: Carriers,
  holders: HolderTable,
  clock: Clock,
): SessionDriver<Share> {
  /** Keys of holds whose unlock has no answer yet, by attempt. */
  const unlocking = new Map<string, string>()
  const isThere = ({ pid }: Share): Promise<boolean> => holders.isThere(pid)

  async function busy({ request: { name } }: HoldInfo): Promise<Tried> {
    return { holder: (await holders.holderOf(name))?.holder }
  }

  /** Whether the name is locked. It is not without the key of the hold. */
  function isLocked([locked, marked]: Row): boolean {
    if (locked === 't' && marked !== 't')
      throw errors.unavailable('the key of this hold is in use, so nothing is held; try again')
    return locked === 't'
  }

  return {
    newKey: keyMaker(),
    isThere,
    mint: ({ pid }, hold) => holders.mint(hold, pid),
    holderOf: (name) => holders.holderOf(name),
    list: (limit) => holders.list(limit),

    async tryLock(share, hold, silenceMs) {
      const { name, willWait } = hold.request
      const lock = lockOf(settings, name)
      // Another attempt of this client has it, or waits for it. The server knows whether that is still so.
      const own = carriers.has(lock) ? await holders.holderOf(name) : undefined
      if (own !== undefined) return { holder: own.holder }
      const locked = await carriers.trying(lock, willWait, async (carrier) => {
        share.join(carrier, lock, hold.key)
        share.expires(clock.now() + silenceMs)
        const got = isLocked(await share.run((on) => on.tryLock(lock, hold.key)))
        if (!got) share.withdraw()
        return got
      })
      return locked === true ? 'locked' : busy(hold)
    },

    make: () => Promise.resolve(),

    queue(share, { request, key }) {
      const lock = lockOf(settings, request.name)
      const sent = carriers.alone().then((carrier) => {
        share.silentUntil = clock.now() + Math.min(request.ttlMs, settings.sessionTtlMs)
        share.join(carrier, lock, key)
        const { prepared, locked } = carrier.lock(lock, key)
        // Both are awaited by `run`, unless the share ends before that.
        prepared.catch(() => undefined)
        locked.catch(() => undefined)
        return { prepared, locked }
      })
      return {
        // `isThere` also opens the connection on which a wait is cancelled, so that cancelling does not take long.
        queued: sent.then(({ prepared }) => Promise.all([share.run(() => prepared), isThere(share)])),
        locked: sent.then(async ({ locked }) => isLocked(await share.run(() => locked))),
      }
    },

    async probe(share, silenceMs) {
      share.expires(clock.now() + silenceMs)
      await share.run((carrier) => carrier.probe())
    },

    async cancel(share) {
      if (share.carrier !== undefined) share.carrier.cancelled = true
      await holders.cancel(share.pid)
    },

    async free(share, { request: { attemptId }, key }) {
      unlocking.set(attemptId, key)
      try {
        return await share.unlock()
      } finally {
        unlocking.delete(attemptId)
      }
    },

    async breakHold(name, attemptId) {
      const key = unlocking.get(attemptId)
      if (key !== undefined && (await holders.isAlive(key)))
        throw errors.unavailable(
          'the server has not answered the unlock, so the name is still locked; try again',
        )
      // Other holds depend on a connection that lives, and its end is not needed: what it unlocks is on its way.
      return holders.breakHold(name, attemptId, carriers.pids)
    },

    saysEnded: isEnd,
    isWorthAnotherTry: isEndOfWait,
  }
}
