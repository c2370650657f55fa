import { randomUUID } from 'node:crypto'
import { access, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, unavailable } from '../errors.ts'
import { ifThere, syncDirectory } from './file-io.ts'
import { FLOOR } from './file-paths.ts'

/** The floor may be raised while it is looked for; so often it is looked for again. */
const MAX_LOOKS = 100

/** No version above this one was ever dropped: the name of the one directory in `.floor`, in which keys are made. */
export class Floor {
  readonly #parent: string
  readonly #directory: string
  /** As it was last seen. */
  #known: bigint | undefined
  /** Survives a crash of the host, as far as this process has seen to it. */
  #synced = -1n

  constructor(directory: string) {
    this.#directory = directory
    this.#parent = join(directory, FLOOR)
  }

  /** Makes it, unless it is there. As a whole, so that it is never made beside one that was raised meanwhile. */
  async prepare(): Promise<void> {
    const there = await ifThere(readdir(this.#parent))
    if (there !== undefined && there.length > 0) return
    const made = join(this.#directory, `${FLOOR}.${randomUUID()}`)
    try {
      await mkdir(join(made, '0'), { recursive: true })
      await rename(made, this.#parent)
    } catch (error) {
      await rm(made, { recursive: true, force: true })
      if (codeOf(error) !== 'ENOTEMPTY' && codeOf(error) !== 'EEXIST') throw error
    }
  }

  /** Rejects when the directory is gone. */
  async confirm(): Promise<void> {
    await access(this.#parent)
  }

  async current(): Promise<bigint> {
    return (this.#known ??= await this.#look())
  }

  pathOf(floor: bigint): string {
    return join(this.#parent, String(floor))
  }

  /** It may have been raised. */
  forget(): void {
    this.#known = undefined
  }

  /**
   * So that it is at least that, also after a crash of the host. If it has to rise, it rises to the present time, which is
   * where new keys begin: keys that are there by now can be dropped later without raising it, and whoever makes a key
   * has to begin again only once per idle time.
   */
  async raise(atLeast: bigint): Promise<void> {
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const from = await this.current()
      const byClock = BigInt(Date.now()) * 1_000n
      const to = byClock > atLeast ? byClock : atLeast
      try {
        if (from < atLeast) await rename(this.pathOf(from), this.pathOf(to))
        this.#known = from < atLeast ? to : from
        // Another process may have raised it, and not have come to this yet.
        if (this.#synced < this.#known) await syncDirectory(this.#parent)
        this.#synced = this.#known
        return
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
        this.#known = undefined
      }
    }
    throw unavailable('the floor changes too fast to be raised')
  }

  async #look(): Promise<bigint> {
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const floors = (await readdir(this.#parent)).filter((entry) => /^\d{1,19}$/.test(entry)).map(BigInt)
      if (floors.length > 0) return floors.reduce((a, b) => (a > b ? a : b))
      await this.prepare()
    }
    throw unavailable(`there is no floor in ${JSON.stringify(this.#parent)}`)
  }
}
