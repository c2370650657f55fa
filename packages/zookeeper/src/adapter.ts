import type { AcquireRequest, Adapter, AdapterHost, Busy, Grant, RenewOutcome } from '@locks/core/adapter'
import { capabilities } from './capabilities.ts'
import type { ZookeeperCapabilities } from './capabilities.ts'
import { diagnose } from './diagnose.ts'
import { unavailable } from './errors.ts'
import { readHolder } from './holder.ts'
import { Janitor } from './janitor.ts'
import { Keeper } from './keeper.ts'
import { breakHold, inspect, list, prune } from './operate.ts'
import { directoryOf, prefixOf } from './paths.ts'
import { Place, sweep } from './place.ts'
import { allPresent } from './renewal.ts'
import type { Session } from './session.ts'
import type { Settings } from './settings.ts'
import { Turns } from './turns.ts'
import { waitInPlace } from './waiting.ts'

/** Who finds his own node gone this often is not told by the store what is going on. */
const MAX_TRIES = 5

export function zookeeperAdapter(settings: Settings, host: AdapterHost): Adapter<ZookeeperCapabilities> {
  const { clock } = host
  /** By attempt id. */
  const places = new Map<string, Place>()
  const turns = new Turns()
  const keeper = new Keeper(settings, host, {
    ended(session) {
      host.report('lost')
      for (const [attemptId, place] of places) {
        if (place.session !== session) continue
        places.delete(attemptId)
        left(place.directory)
        sweepLater(attemptId, place)
      }
    },
    holding(session) {
      for (const place of places.values()) if (place.granted && place.session === session) return true
      return false
    },
  })
  const janitor = new Janitor(clock, () => keeper.connected)

  function left(directory: string, sequence = 0): void {
    // A path that is shared with other programs is not ours to remove.
    if (!settings.rawPath) janitor.left(directory, sequence)
  }

  async function connected(): Promise<Session> {
    return keeper.connected ?? keeper.ready()
  }

  async function placeFor(request: AcquireRequest): Promise<Place> {
    const directory = directoryOf(request.name, settings)
    const session = await connected()
    const known = places.get(request.attemptId)
    if (known?.session === session) return known
    const place: Place = new Place(session, directory, request, () => sweepLater(request.attemptId, place))
    return place
  }

  /** In turn with the steps of that try: meanwhile it makes no node whose name is not known yet. */
  function sweepLater(attemptId: string, place: Place): void {
    place.session.chores.add(attemptId, (wire) =>
      turns.take(attemptId, async () => {
        const now = places.get(attemptId)
        const staying = now?.leaving === false ? now : undefined
        // It sweeps by itself once it looks for its node.
        if (staying?.unsure === true) return
        await sweep(wire, place, staying?.path)
        if (staying !== undefined) return
        places.delete(attemptId)
        left(place.directory)
      }),
    )
  }

  function grantOf({ name, attemptId }: AcquireRequest, place: Place): Grant {
    const { fence, session } = place
    if (fence === undefined) throw unavailable('the node of this lock is gone')
    place.granted = true
    return { name, attemptId, fence, ttlMs: session.reliableMs }
  }

  async function busy(request: AcquireRequest, place: Place, head: string): Promise<Busy> {
    const { wire, timeoutMs } = place.session
    const leaving = request.willWait || place.path === undefined ? undefined : leave(request.attemptId, place)
    const [holder] = await Promise.all([readHolder(wire, head), leaving])
    return { busy: true, retryInMs: timeoutMs, ...(holder && { holder }) }
  }

  /**
   * Who does not wait makes a node only if the lock looks free: others would take one that is about to be
   * removed for the holder's. Of two who find the lock free at once, the second still makes one.
   */
  async function refused(request: AcquireRequest, place: Place): Promise<Busy | undefined> {
    const head = request.willWait ? undefined : await place.lookAhead()
    if (head === undefined) return undefined
    places.delete(request.attemptId)
    return busy(request, place, head)
  }

  async function leave(attemptId: string, place: Place): Promise<boolean> {
    const { sequence } = place
    const had = await place.leave()
    if (places.get(attemptId) === place) places.delete(attemptId)
    left(place.directory, sequence)
    return had
  }

  /** Leaves, if not now then as soon as the session can. Returns whether there was a node, if that is known here. */
  function surelyLeave(attemptId: string): Promise<boolean | undefined> {
    return turns.take(attemptId, async () => {
      const place = places.get(attemptId)
      if (place === undefined) return undefined
      place.leaving = true
      place.granted = false
      try {
        return await leave(attemptId, place)
      } catch (error) {
        sweepLater(attemptId, place)
        throw error
      }
    })
  }

  return {
    name: '@locks/zookeeper',
    capabilities,

    attempt: (request) =>
      turns.take(request.attemptId, async () => {
        const place = await placeFor(request)
        const answer = await refused(request, place)
        if (answer !== undefined) return answer
        places.set(request.attemptId, place)
        const last = settings.rawPath ? 0 : janitor.reused(place.directory)
        for (let tries = 0; tries < MAX_TRIES; tries += 1) {
          const asked = await place.enter(tries === 0 && last !== undefined ? last + 1 : undefined)
          const head = await (asked ? place.look() : place.confirm())
          if (head === place.path && head !== undefined) return grantOf(request, place)
          if (head !== undefined) return busy(request, place, head)
        }
        throw unavailable('the node of this try vanishes as soon as it is made')
      }),

    async wait(request, maxMs, signal) {
      const place = places.get(request.attemptId)
      if (place === undefined) return undefined
      const grantedAt = await waitInPlace(place, clock, maxMs, signal)
      if (grantedAt === undefined || places.get(request.attemptId) !== place) return undefined
      return { ...grantOf(request, place), grantedAt }
    },

    async withdraw({ attemptId }) {
      await surelyLeave(attemptId)
    },

    async renew(renewals) {
      const held = renewals.map(({ grant: { attemptId } }) => {
        const place = places.get(attemptId)
        return { attemptId, place, path: place?.granted === true ? place.path : undefined }
      })
      const session = keeper.connected
      const paths = held.map(({ path }) => path).filter((path) => path !== undefined)
      if (paths.length > 0 && session === undefined) throw keeper.unconnected()
      const present = session === undefined ? new Set() : await allPresent(session, paths)
      return held.map(({ attemptId, place, path }): RenewOutcome => {
        if (path === undefined) return 'lost'
        if (present.has(path)) return 'renewed'
        // Nobody gives back what he was told is lost. One that is leaving does this when it is done.
        if (place?.granted === true && places.get(attemptId) === place) {
          places.delete(attemptId)
          left(place.directory)
        }
        return 'lost'
      })
    },

    async release({ name, attemptId }) {
      // Removals are sent once, so a node that is gone was removed by another, or by a release that failed before.
      const removed = await surelyLeave(attemptId)
      if (removed !== undefined) return removed ? 'released' : 'not-held'
      const { wire } = await connected()
      const removals = await sweep(wire, {
        directory: directoryOf(name, settings),
        prefix: prefixOf(attemptId),
      })
      return removals > 0 ? 'released' : 'not-held'
    },

    inspect: async (name) => inspect((await connected()).wire, settings, name),

    list: async (limit) => list((await connected()).wire, settings, limit),

    async break(name, holder) {
      const directory = directoryOf(name, settings)
      const outcome = await breakHold((await connected()).wire, directory, holder)
      if (outcome === 'broken') left(directory)
      return outcome
    },

    prune: async (_, names) => prune((await connected()).wire, settings, names),

    diagnose: async () => diagnose(await connected(), settings, clock),

    async close() {
      // Not waited for: the end of the session is sent after it.
      janitor.finish()
      await keeper.close()
    },
  }
}
