import type { AcquireRequest } from '@locks/core/adapter'
import { code, errors, isCutOff, isRequestError, missingChroot } from './errors.ts'
import { describe } from './holders.ts'
import { inOrder, isInOrder, parentOf, prefixOf, sequenceOf, sequenceText } from './paths.ts'
import type { Requests } from './requests.ts'
import type { Session } from './session.ts'

/** Give up after the directory has been removed this many times before our node was in it. */
const MAX_TRIES = 10

interface Place {
  readonly directory: string
  readonly mark: Buffer | undefined
}

/** The node of one attempt in the queue of a lock, in one session. */
export class QueueNode {
  readonly session: Session
  readonly directory: string
  /** Whether the attempt received its grant. */
  granted = false
  /** Whether the attempt was withdrawn or released, so that no node of it may stay. */
  withdrawn = false
  /** What the names of its nodes begin with. */
  readonly prefix: string
  readonly #data: Buffer
  #node: string | undefined
  #fence: bigint | undefined
  #unsure = false
  #predecessor: string | undefined
  /** The queue as it was when the node was created, for the first look. */
  #seen: Promise<readonly string[]> | undefined
  readonly #strayed: () => void
  /** The data of the directory, if it is created. */
  readonly #mark: Buffer | undefined

  /** Calls `strayed` when the attempt may have more nodes than this one. */
  constructor(session: Session, place: Place, request: AcquireRequest, strayed: () => void) {
    this.session = session
    this.directory = place.directory
    this.#mark = place.mark
    this.prefix = prefixOf(request.attemptId)
    this.#data = describe(request)
    this.#strayed = strayed
  }

  /** Whether a creation is pending or its answer was lost, so that the node may exist under an unknown name. */
  get unsure(): boolean {
    return this.#unsure
  }

  get sequence(): number | undefined {
    return this.#node === undefined ? undefined : sequenceOf(this.#node)
  }

  get path(): string | undefined {
    return this.#node === undefined ? undefined : `${this.directory}/${this.#node}`
  }

  /** The zxid that created the node: unlike its sequence, it rises even if the directory is created again. */
  get fence(): bigint | undefined {
    return this.#fence
  }

  /** The node to wait for; undefined when it has not been looked up, or there is none. */
  get predecessor(): string | undefined {
    return this.#predecessor === undefined ? undefined : `${this.directory}/${this.#predecessor}`
  }

  forgetPredecessor(): void {
    this.#predecessor = undefined
  }

  /**
   * Returns the node that holds the lock, for an attempt that does not wait; undefined when the lock is free or the
   * attempt already has a node. Up to date with the leader, in one round trip.
   */
  async lookAhead(): Promise<string | undefined> {
    const { requests } = this.session
    if (this.#unsure) await this.#recover()
    if (this.#node !== undefined) return undefined
    const [, children] = await Promise.all([requests.catchUp(), requests.children(this.directory)])
    const [head] = inOrder(children)
    return head === undefined ? undefined : `${this.directory}/${head}`
  }

  /**
   * Creates the node if there is none. `sequence` is the number it is likely to get; undefined when the directory
   * probably does not exist. Returns whether the leader was asked, which it was not if the node was known.
   */
  async enter(sequence: number | undefined): Promise<boolean> {
    if (this.#unsure) await this.#recover()
    else if (this.#node !== undefined) return false
    for (let tries = 0; this.#node === undefined; tries += 1) {
      try {
        await this.#create(tries === 0 ? sequence : undefined)
      } catch (error) {
        if (!isRequestError(error, code.noNode) || tries >= MAX_TRIES) throw error
        // The directory is created with the node, so its parent is missing, or it was removed in between.
        const parent = parentOf(this.directory)
        if (tries === 0) continue
        if (parent !== '') await makeDirectory(this.session.requests, parent)
        else if ((await this.session.requests.exists('/')) === null) throw missingChroot()
      }
    }
    return true
  }

  /** Looks up the predecessor. Returns the node that holds the lock, or undefined if our own is gone. */
  async look(): Promise<string | undefined> {
    const { requests } = this.session
    const { path } = this
    if (path === undefined || this.#node === undefined) return undefined
    const seen = this.#seen ?? requests.children(this.directory)
    this.#seen = undefined
    const [stat, children] = await Promise.all([
      this.#fence === undefined ? requests.exists(path) : undefined,
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

  /** Like `look`, and asks the leader whether node and session exist: a server that is cut off from it cannot know. */
  async confirm(): Promise<string | undefined> {
    const { path } = this
    if (path === undefined) return undefined
    const [missing, head] = await Promise.all([this.session.requests.missing([path]), this.look()])
    if (missing === undefined) return head
    this.#forget()
    return undefined
  }

  /** Removes the node. Returns whether there was one. */
  async remove(): Promise<boolean> {
    if (this.#unsure) await this.#recover()
    const { path } = this
    if (path === undefined) return false
    const removed = await this.session.requests.remove(path)
    this.#forget()
    return removed
  }

  /**
   * One round trip: a session's requests are answered in order, so the list contains the node, and the node can be
   * asked for by the name it is going to have.
   */
  async #create(sequence: number | undefined): Promise<void> {
    if (this.withdrawn) throw errors.unavailable('the attempt was withdrawn; nothing is held')
    const { requests } = this.session
    const prefix = `${this.directory}/${this.prefix}`
    this.#unsure = true
    let refusal: unknown
    // If this fails for any reason but that the directory exists, the next request fails too.
    if (sequence === undefined)
      requests.createDirectory(this.directory, this.#mark).catch((error: unknown) => {
        if (!isRequestError(error, code.nodeExists, code.noNode)) refusal = error
      })
    const created = requests.createMember(prefix, this.#data, this.#strayed)
    const expected = `${prefix}${sequenceText(sequence ?? 0)}`
    const [stat, seen] = [requests.exists(expected), requests.children(this.directory)]
    // If these fail, the creation has failed before.
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
      // A missing directory could not be created; the reason for that was answered before.
      throw isRequestError(error, code.noNode) ? (refusal ?? error) : error
    }
    if (isInOrder(this.#node)) return
    await this.remove()
    throw errors.unavailable(
      `the sequence numbers of ${this.directory} are nearly exhausted; remove it while it is unused`,
    )
  }

  /** Looks for the node of a creation whose answer was lost. */
  async #recover(): Promise<void> {
    const { requests } = this.session
    await requests.catchUp()
    const children = await requests.children(this.directory)
    for (const child of inOrder(children.filter((name) => name.startsWith(this.prefix)))) {
      const stat = await requests.exists(`${this.directory}/${child}`)
      if (stat === null) continue
      if (this.#node === undefined && this.session.isMine(stat.ephemeralOwner)) {
        this.#node = child
        this.#fence = stat.czxid.readBigInt64BE()
      } else if (child !== this.#node) this.#strayed() // From an earlier session, or created twice.
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

/**
 * Removes the nodes of an attempt, except for the one that `current` has. Returns how many there were; undefined while
 * `current` creates its node, since it is not known yet which one to keep.
 */
export async function sweep(
  requests: Requests,
  { directory, prefix }: Pick<QueueNode, 'directory' | 'prefix'>,
  current: () => QueueNode | undefined = () => undefined,
): Promise<number | undefined> {
  let removals = 0
  await requests.catchUp()
  for (const child of await requests.children(directory)) {
    if (!child.startsWith(prefix)) continue
    // Before each removal: the attempt may have got another node since the last.
    const kept = current()
    if (kept?.unsure === true) return undefined
    const path = `${directory}/${child}`
    if (path !== kept?.path && (await requests.remove(path))) removals += 1
  }
  return removals
}

/** From below: a client that may use a directory is not always allowed to create its parent. */
async function makeDirectory(requests: Requests, path: string): Promise<void> {
  try {
    await requests.createDirectory(path)
  } catch (error) {
    if (isRequestError(error, code.nodeExists)) return
    if (!isRequestError(error, code.noNode)) throw error
    // Only a chroot can be missing above it, which this package does not create.
    if (parentOf(path) === '') throw missingChroot()
    await makeDirectory(requests, parentOf(path))
    await makeDirectory(requests, path)
  }
}
