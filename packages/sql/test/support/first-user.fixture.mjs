// A process that uses each place it is given for the first time, and reports the fence it got there.
import { createLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'

/** @param {string} url */
async function use(url) {
  const factory = await loadAdapter(url)
  // Core tries a failed attempt again, which would hide a race.
  /** @type {unknown[]} */
  const failures = []
  const locks = createLocks((host) => {
    const adapter = factory(host)
    return {
      ...adapter,
      attempt: (request) =>
        adapter.attempt(request).catch((/** @type {unknown} */ error) => {
          failures.push(error)
          throw error
        }),
    }
  })
  try {
    const fence = await locks.with('first', { waitMs: 60_000 }, (lease) => String(lease.fence))
    return failures.length === 0 ? fence : String(failures[0])
  } catch (error) {
    return String(error)
  } finally {
    await locks.close()
  }
}

process.on('message', (message) => {
  void use(String(message)).then((outcome) => process.send?.(outcome))
})
process.send?.('ready')
