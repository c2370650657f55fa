import { isLockError, openLocks } from '@locks/core'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** An error that ends the demo with one line instead of a stack trace. */
export class Unusable extends Error {}

/**
 * @typedef {object} Backend
 * @property {string} title
 * @property {import('@locks/core').LocksConfig} config
 * @property {import('@locks/core').Capabilities} capabilities
 * @property {() => Promise<void>} stop
 */

/**
 * The backend of that URL, or a private one for this run. It has answered once when this returns.
 *
 * @param {string | undefined} url
 * @returns {Promise<Backend>}
 */
export async function openBackend(url) {
  const { title, config, stop } = url === undefined ? await privateBackend() : publicBackend(url)
  try {
    return { title, config, stop, capabilities: await probe(title, config) }
  } catch (error) {
    await stop()
    if (isLockError(error) || error instanceof Unusable) throw new Unusable(error.message, { cause: error })
    throw error
  }
}

async function privateBackend() {
  const directory = await mkdtemp(join(tmpdir(), 'locks-demo-'))
  const stop = () => rm(directory, { recursive: true, force: true })
  return { title: `a directory for this run, ${directory}`, config: `file:${directory}`, stop }
}

/** @param {string} url */
function publicBackend(url) {
  const config = url.startsWith('{') ? parse(url) : url
  return { title: titleOf(config), config, stop: async () => undefined }
}

/**
 * @param {string} json
 * @returns {Exclude<import('@locks/core').LocksConfig, string>}
 */
function parse(json) {
  try {
    return JSON.parse(json)
  } catch (error) {
    throw new Unusable('--url is neither a URL nor the JSON of a config', { cause: error })
  }
}

/** No more of it than this: it may carry a password. @param {import('@locks/core').LocksConfig} config */
function titleOf(config) {
  if (typeof config === 'object') return 'adapter' in config ? config.adapter : 'a choice of stores'
  const { protocol, host } = URL.canParse(config) ? new URL(config) : { protocol: 'an unknown URL', host: '' }
  return host === '' ? protocol : `${protocol}//${host}`
}

/**
 * @param {string} title
 * @param {import('@locks/core').LocksConfig} config
 */
async function probe(title, config) {
  const locks = await openLocks(config)
  try {
    const { capabilities } = locks
    if (capabilities.scope === 'process')
      throw new Unusable(
        `${title} excludes only tasks of one process; the demo needs a store that processes share`,
      )
    if (capabilities.fencing === 'none')
      throw new Unusable(`${title} has no fences; the demo shows what they are for`)
    await locks.inspect('demo-probe')
    return capabilities
  } catch (error) {
    if (isLockError(error, 'LOCK_UNAVAILABLE'))
      throw new Unusable(`cannot reach the backend ${title}: ${error.message}`, { cause: error })
    throw error
  } finally {
    await locks.close()
  }
}
