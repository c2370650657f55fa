import { randomUUID } from 'node:crypto'
import { access, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, errors } from '../errors.ts'
import { ifThere, syncDirectory } from './file-io.ts'
import { FLOOR, folderOfNew, newFolder } from './file-paths.ts'

/** How often the floor is looked for again while it is being raised. */
const MAX_LOOKS = 100

/** No version above this one was ever dropped: the name of the one directory in `.floor`, where keys are prepared. */
export class Floor {
  readonly #parent: string
  readonly #directory: string
  /** At the last look. */
  #known: bigint | undefined
  /** The highest floor that this process made to survive a crash of the host. */
  #synced = -1n
  /** Keys that this process is about to create: the names of their directories in the floor. */
  readonly making: Set<string> = new Set()
  /** Whether this process is removing what others left in it. */
  sweeping: boolean = false

  constructor(directory: string) {
    this.#directory = directory
    this.#parent = join(directory, FLOOR)
  }

  /** Creates it if it is missing, as a whole: never beside one that was raised meanwhile. */
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

  /**
   * Removes a key that was never created. Away first, as a whole: if its process is alive after all, it must not put a
   * folder into place that is empty by now.
   */
  async remove(floor: bigint, entry: string): Promise<void> {
    const away = newFolder(this.pathOf(floor), folderOfNew(entry))
    const moved = await ifThere(rename(join(this.pathOf(floor), entry), away).then(() => true))
    if (moved === true) await rm(away, { recursive: true, force: true })
  }

  /** Call when it may have been raised. */
  forget(): void {
    this.#known = undefined
  }

  /**
   * Raises the floor to at least `atLeast`, durably. It jumps to the present time, so that idle keys can be dropped
   * later without raising it again: processes that create keys start over only once per idle time.
   */
  async raise(atLeast: bigint): Promise<void> {
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const from = await this.current()
      const byClock = BigInt(Date.now()) * 1_000n
      const to = byClock > atLeast ? byClock : atLeast
      try {
        if (from < atLeast) await rename(this.pathOf(from), this.pathOf(to))
        this.#known = from < atLeast ? to : from
        // Another process may have raised it and not synced it yet.
        if (this.#synced < this.#known) await syncDirectory(this.#parent)
        this.#synced = this.#known
        return
      } catch (error) {
        if (codeOf(error) !== 'ENOENT') throw error
        this.#known = undefined
      }
    }
    throw errors.unavailable('the floor changes too fast to be raised; try again')
  }

  async #look(): Promise<bigint> {
    for (let looks = 0; looks < MAX_LOOKS; looks += 1) {
      const floors = (await readdir(this.#parent)).filter((entry) => /^\d{1,19}$/.test(entry)).map(BigInt)
      if (floors.length > 0) return floors.reduce((a, b) => (a > b ? a : b))
      await this.prepare()
    }
    throw errors.unavailable(
      `there is no floor in ${JSON.stringify(this.#parent)}, so no key can be created; try again`,
    )
  }
}
