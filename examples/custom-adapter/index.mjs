import { settleOptions } from '@locks/core/adapter'
import { httpLocks } from './adapter.mjs'

export { httpLocks }
export { subject } from './subject.mjs'

/** Every option once: its type, check and default follow from it. */
const declared = /** @type {const} */ ({
  adapter: 'custom-adapter',
  options: {
    /** Where the server is. */
    url: {
      kind: 'text',
      matches: String.raw`http://[\w.-]+:\d+/`,
      must: 'be http://host:port/',
      required: true,
    },
  },
})

/**
 * Lets a config name this module: `{ adapter: './index.mjs', url }`. Unknown keys are refused.
 *
 * @param {Readonly<Record<string, unknown>>} options
 */
export function fromConfig(options) {
  return httpLocks(settleOptions(declared, options).url)
}
