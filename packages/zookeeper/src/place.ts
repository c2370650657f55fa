import type { AcquireRequest } from '@locks/core/adapter'
import { removeIfThere } from './chores.ts'
import { code, invalid, isCutOff, isRequestError, unavailable } from './errors.ts'
import { describe } from './holder.ts'
import { inOrder, isInOrder, parentOf, prefixOf, sequenceOf, sequenceText } from './paths.ts'
import type { Session } from './session.ts'
import type { Wire } from './wire.ts'

/** Somebody may remove the directory again and again before a node is in it. */
const MAX_TRIES = 10

/** The place of one try in the queue of a lock: its node, in one session. */
export class Place {
  readonly session: Session
  readonly directory: string
  /** Whether the try was told that it holds the lock. */
  granted = false
  /** Whether the try has been given up, so that no node of it may stay. */
  leaving = false
  /** What the names of its nodes begin with. */
  readonly prefix: string
  readonly #data: Buffer
  #node: string | undefined
  #fence: bigint | undefined
  /** A node was asked for and the answer lost. */
  #unsure = false
  #predecessor: string | undefined
  /** The queue as it was when the node was made, not looked at yet. */
  #seen: Promise<readonly string[]> | undefined
  readonly #strayed: () => void

  /** `strayed` is told when there may be nodes of this try beside its own. */
  constructor(session: Session, directory: string, request: AcquireRequest, strayed: () => void) {
    this.session = session
    this.directory = directory
    this.prefix = prefixOf(request.attemptId)
    this.#data = describe(request)
    this.#strayed = strayed
  }

  /** Whether its node, if there is one, still has to be found. */
  get unsure(): boolean {
    return this.#unsure
  }

  /** Which number the server gave to the node. */
  get sequence(): number | undefined {
    return this.#node === undefined ? undefined : sequenceOf(this.#node)
  }

  get path(): string | undefined {
    return this.#node === undefined ? undefined : `${this.directory}/${this.#node}`
  }

  /** The zxid that made the node: unlike its sequence, it only rises also when the directory is made anew. */
  get fence(): bigint | undefined {
    return this.#fence
  }

  /** The node to wait for; undefined when it was not looked up, or there is none. */
  get predecessor(): string | undefined {
    return this.#predecessor === undefined ? undefined : `${this.directory}/${this.#predecessor}`
  }

  forgetPredecessor(): void {
    this.#predecessor = undefined
  }

  /**
   * Answers the node that holds the lock, for a try that would not wait behind it; undefined when there
   * is none, or the try has a node already. As new as the ensemble, in one round trip.
   */
  async lookAhead(): Promise<string | undefined> {
    const { wire } = this.session
    if (this.#unsure) await this.#recover()
    if (this.#node !== undefined) return undefined
    const [, children] = await Promise.all([catchUp(wire), childrenOf(wire, this.directory)])
    const [head] = inOrder(children)
    return head === undefined ? undefined : `${this.directory}/${head}`
  }

  /**
   * Makes the node, unless there is one. `sequence` is the one it may be expected to get: undefined
   * when the directory is not likely to exist. Answers whether the leader has been asked: not if
   * the node was known before.
   */
  async enter(sequence: number | undefined): Promise<boolean> {
    if (this.#unsure) await this.#recover()
    else if (this.#node !== undefined) return false
    for (let tries = 0; this.#node === undefined; tries += 1) {
      try {
        await this.#create(tries === 0 ? sequence : undefined)
      } catch (error) {
        if (!isRequestError(error, code.noNode) || tries >= MAX_TRIES) throw error
        // Made together with the node, a directory is missing only if its parent is, or was removed in between.
        const parent = parentOf(this.directory)
        if (tries > 0 && parent !== '') await makeDirectory(this.session.wire, parent)
      }
    }
    return true
  }

  /** Finds out who comes before. Answers the node that holds the lock, or undefined if our own is gone. */
  async look(): Promise<string | undefined> {
    const { wire } = this.session
    const { path } = this
    if (path === undefined || this.#node === undefined) return undefined
    const seen = this.#seen ?? childrenOf(wire, this.directory)
    this.#seen = undefined
    const [stat, children] = await Promise.all([
      this.#fence === undefined ? wire.exists(path) : undefined,
      seen,
    ])
    if (stat) this.#fence = stat.czxid.readBigInt64BE()
    const order = inOrder(children)
    const index = order.indexOf(this.#node)
    if (stat === null || index < 0) {
      this.#forget()
      return undefined
    }
    this.#predecessor = order[index - 1]
    return `${this.directory}/${order[0]}`
  }

  /**
   * As `look`, and asks the leader whether node and session are still there. A server that is cut off
   * from it goes on answering from what it knew.
   */
  async confirm(): Promise<string | undefined> {
    const { path } = this
    if (path === undefined) return undefined
    const [missing, head] = await Promise.all([this.session.wire.missing([path]), this.look()])
    if (missing === undefined) return head
    this.#forget()
    return undefined
  }

  /** Gives the place up. Answers whether there was one. */
  async leave(): Promise<boolean> {
    if (this.#unsure) await this.#recover()
    const { path } = this
    if (path === undefined) return false
    const removed = await removeIfThere(this.session.wire, path)
    this.#forget()
    return removed
  }

  /**
   * All in one round trip: a session's requests are answered in the order they were sent, so the list
   * has the node in it, and the node can be asked for by the name it is going to have.
   */
  async #create(sequence: number | undefined): Promise<void> {
    const { wire } = this.session
    const prefix = `${this.directory}/${this.prefix}`
    this.#unsure = true
    let refusal: unknown
    // If this fails for any reason but that the directory is there, the next fails too.
    if (sequence === undefined)
      wire.createDirectory(this.directory).catch((error: unknown) => {
        if (!isRequestError(error, code.nodeExists, code.noNode)) refusal = error
      })
    const created = wire.createMember(prefix, this.#data, this.#strayed)
    const expected = `${prefix}${sequenceText(sequence ?? 0)}`
    const [stat, seen] = [wire.exists(expected), childrenOf(wire, this.directory)]
    // Both fail with the connection, and then the creation does so first.
    stat.catch(() => undefined)
    seen.catch(() => undefined)
    try {
      const path = await created
      this.#node = path.slice(this.directory.length + 1)
      this.#unsure = false
      if (path === expected) this.#fence = (await stat)?.czxid.readBigInt64BE()
      this.#seen = seen
    } catch (error) {
      if (!isCutOff(error)) this.#unsure = false
      // Then the directory is missing, and why it could not be made was answered before.
      throw isRequestError(error, code.noNode) ? (refusal ?? error) : error
    }
    if (isInOrder(this.#node)) return
    await this.leave()
    throw unavailable(`the sequence of ${this.directory} is nearly exhausted; remove it while nobody uses it`)
  }

  /** Finds what came of a creation whose answer was lost. */
  async #recover(): Promise<void> {
    const { wire } = this.session
    await catchUp(wire)
    const children = await childrenOf(wire, this.directory)
    for (const child of inOrder(children.filter((name) => name.startsWith(this.prefix)))) {
      const path = `${this.directory}/${child}`
      const stat = await wire.exists(path)
      if (stat === null) continue
      if (this.#node === undefined && this.session.isMine(stat.ephemeralOwner)) {
        this.#node = child
        this.#fence = stat.czxid.readBigInt64BE()
      } else this.#strayed() // Of a session before this one, or made twice: nobody counts on it.
    }
    this.#unsure = false
  }

  #forget(): void {
    this.#node = undefined
    this.#fence = undefined
    this.#predecessor = undefined
    this.#seen = undefined
    this.granted = false
  }
}

/** What any client was told before this was called, reads of this session see afterwards. */
export async function catchUp(wire: Wire): Promise<void> {
  try {
    await wire.missing(['/'])
  } catch (error) {
    // A refusal comes from the leader as well.
    if (!isRequestError(error) || isCutOff(error)) throw error
  }
}

export async function childrenOf(wire: Wire, directory: string): Promise<readonly string[]> {
  try {
    return await wire.children(directory)
  } catch (error) {
    if (isRequestError(error, code.noNode)) return []
    throw error
  }
}

/** Removes what a try left in a directory, but for the node it has. Returns how many nodes that were. */
export async function sweep(
  wire: Wire,
  { directory, prefix }: Pick<Place, 'directory' | 'prefix'>,
  kept?: string,
): Promise<number> {
  let removals = 0
  await catchUp(wire)
  for (const child of await childrenOf(wire, directory)) {
    const path = `${directory}/${child}`
    if (child.startsWith(prefix) && path !== kept && (await removeIfThere(wire, path))) removals += 1
  }
  return removals
}

/** From below, since who may use a directory need not be allowed to make its parent. */
async function makeDirectory(wire: Wire, path: string): Promise<void> {
  try {
    await wire.createDirectory(path)
  } catch (error) {
    if (isRequestError(error, code.nodeExists)) return
    if (!isRequestError(error, code.noNode)) throw error
    // Only a chroot can be missing above it, and that is not ours to make.
    if (parentOf(path) === '')
      throw invalid(
        'the chroot of the url is missing, so no lock can be taken; create it, or correct the url',
      )
    await makeDirectory(wire, parentOf(path))
    await makeDirectory(wire, path)
  }
}
