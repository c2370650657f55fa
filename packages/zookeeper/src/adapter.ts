import type { AcquireRequest, Adapter, AdapterHost, Busy, Grant, RenewOutcome } from '@locks/core/adapter'
import { zookeeperCapabilities } from './capabilities.ts'
import type { ZookeeperCapabilities } from './capabilities.ts'
import { diagnose } from './diagnose.ts'
import { errors } from './errors.ts'
import { holderOf } from './holders.ts'
import { Janitor } from './janitor.ts'
import { breakHold, inspect, list, prune } from './operators.ts'
import { MARK } from './own-directories.ts'
import { directoryOf, prefixOf } from './paths.ts'
import { QueueNode, sweep } from './queue-node.ts'
import { SessionManager } from './session-manager.ts'
import type { Settings } from './settings.ts'
import { waitForTurn } from './wait-for-turn.ts'

/** Give up after our node has vanished this many times. */
const MAX_TRIES = 5

export function zookeeperAdapter(settings: Settings, host: AdapterHost): Adapter<ZookeeperCapabilities> {
  const { clock } = host
  /** By attempt id. */
  const nodes = new Map<string, QueueNode>()
  const sessions = new SessionManager(settings, host, {
    ended(session) {
      host.report('lost')
      for (const [attemptId, node] of nodes) {
        if (node.session !== session) continue
        nodes.delete(attemptId)
        left(node.directory)
        sweepLater(attemptId, node)
      }
    },
    holding(session) {
      for (const node of nodes.values()) if (node.granted && node.session === session) return true
      return false
    },
  })
  const janitor = new Janitor(clock, () => sessions.connected)

  function left(directory: string, sequence = 0): void {
    // Other programs may rely on a directory at a raw path.
    if (!settings.rawPath) janitor.left(directory, sequence)
  }

  async function nodeFor(request: AcquireRequest): Promise<QueueNode> {
    const directory = directoryOf(request.name, settings)
    const session = await sessions.ready()
    const known = nodes.get(request.attemptId)
    if (known?.session === session) return known
    // Nobody removes a directory at a raw path, so nobody has to recognise it.
    const place = { directory, mark: settings.rawPath ? undefined : MARK }
    const node: QueueNode = new QueueNode(session, place, request, () => sweepLater(request.attemptId, node))
    return node
  }

  /** Removes what the attempt left behind, as soon as the session can. */
  function sweepLater(attemptId: string, node: QueueNode): void {
    const current = (): QueueNode | undefined => {
      const now = nodes.get(attemptId)
      return now?.withdrawn === false ? now : undefined
    }
    node.session.chores.add(attemptId, async (requests) => {
      if ((await sweep(requests, node, current)) === undefined) return false
      if (current() !== undefined) return true
      nodes.delete(attemptId)
      left(node.directory)
      return true
    })
  }

  function grantOf({ name, attemptId }: AcquireRequest, node: QueueNode): Grant {
    const { fence, session } = node
    if (fence === undefined || node.withdrawn)
      throw errors.unavailable('the node of this attempt is gone, so it holds nothing; try again')
    node.granted = true
    return { name, attemptId, fence, ttlMs: session.reliableMs }
  }

  async function busy(request: AcquireRequest, node: QueueNode, head: string): Promise<Busy> {
    const { requests, timeoutMs } = node.session
    const removed = request.willWait || node.path === undefined ? undefined : remove(request.attemptId, node)
    const [holder] = await Promise.all([holderOf(requests, head), removed])
    return { busy: true, retryInMs: timeoutMs, ...(holder && { holder }) }
  }

  /**
   * A try creates a node only if the lock looks free; otherwise others would briefly take its node for the holder's. Of
   * two that find the lock free at once, the second still creates one.
   */
  async function refused(request: AcquireRequest, node: QueueNode): Promise<Busy | undefined> {
    const head = request.willWait ? undefined : await node.lookAhead()
    if (head === undefined) return undefined
    nodes.delete(request.attemptId)
    return busy(request, node, head)
  }

  async function remove(attemptId: string, node: QueueNode): Promise<boolean> {
    const { sequence } = node
    const removed = await node.remove()
    if (nodes.get(attemptId) === node) nodes.delete(attemptId)
    left(node.directory, sequence)
    return removed
  }

  /** Removes the node, now or as soon as the session can. Returns whether it was there; undefined if none is known. */
  async function withdraw(attemptId: string): Promise<boolean | undefined> {
    const node = nodes.get(attemptId)
    if (node === undefined) return undefined
    // From now on it creates no node, even if an attempt is still pending.
    node.withdrawn = true
    node.granted = false
    try {
      return await remove(attemptId, node)
    } catch (error) {
      sweepLater(attemptId, node)
      throw error
    }
  }

  return {
    name: '@locks/zookeeper',
    capabilities: zookeeperCapabilities,

    async attempt(request) {
      const node = await nodeFor(request)
      const answer = await refused(request, node)
      if (answer !== undefined) return answer
      nodes.set(request.attemptId, node)
      const last = settings.rawPath ? 0 : janitor.reused(node.directory)
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const asked = await node.enter(tries === 0 && last !== undefined ? last + 1 : undefined)
        const head = await (asked ? node.look() : node.confirm())
        if (head === node.path && head !== undefined) return grantOf(request, node)
        if (head !== undefined) return busy(request, node, head)
      }
      throw errors.unavailable(
        'another program keeps removing the node of this attempt, so the lock cannot be acquired; ' +
          'look for what deletes nodes below basePath',
      )
    },

    async wait(request, maxMs, signal) {
      const node = nodes.get(request.attemptId)
      if (node === undefined) return undefined
      const grantedAt = await waitForTurn(node, clock, maxMs, signal)
      if (grantedAt === undefined || nodes.get(request.attemptId) !== node) return undefined
      return { ...grantOf(request, node), grantedAt }
    },

    async withdraw({ attemptId }) {
      await withdraw(attemptId)
    },

    async renew(renewals) {
      const held = renewals.map(({ grant: { attemptId } }) => {
        const node = nodes.get(attemptId)
        return { attemptId, node, path: node?.granted === true ? node.path : undefined }
      })
      const session = sessions.connected
      const paths = held.map(({ path }) => path).filter((path) => path !== undefined)
      if (paths.length > 0 && session === undefined) throw sessions.unconnected()
      const present = await session?.requests.present(paths)
      return held.map(({ attemptId, node, path }): RenewOutcome => {
        if (path === undefined) return 'lost'
        if (present?.has(path) === true) return 'renewed'
        // Core does not release what is lost. A node that is being withdrawn is forgotten when that is done.
        if (node?.granted === true && nodes.get(attemptId) === node) {
          nodes.delete(attemptId)
          left(node.directory)
        }
        return 'lost'
      })
    },

    async release({ name, attemptId }) {
      // A removal is sent once, so a missing node was removed by another client, or by a release that failed before.
      const removed = await withdraw(attemptId)
      if (removed !== undefined) return removed ? 'released' : 'not-held'
      const { requests } = await sessions.ready()
      const removals = await sweep(requests, {
        directory: directoryOf(name, settings),
        prefix: prefixOf(attemptId),
      })
      return removals === 0 ? 'not-held' : 'released'
    },

    inspect: async (name) => inspect((await sessions.ready()).requests, settings, name),

    list: async (limit) => list((await sessions.ready()).requests, settings, limit),

    async break(name, holder) {
      const directory = directoryOf(name, settings)
      const outcome = await breakHold((await sessions.ready()).requests, directory, holder)
      if (outcome === 'broken') left(directory)
      return outcome
    },

    prune: async (_, names) => prune((await sessions.ready()).requests, settings, names),

    diagnose: async () => diagnose(await sessions.ready(), settings, clock),

    async close() {
      await janitor.finish()
      await sessions.close()
    },
  }
}
