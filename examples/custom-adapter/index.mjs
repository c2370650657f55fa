import { errorsOf } from '@locks/core/adapter'
import { httpLocks } from './adapter.mjs'

export { httpLocks }
export { subject } from './subject.mjs'

const { invalid } = errorsOf('custom-adapter')

/**
 * For a config that names this module: `{ adapter: './index.mjs', url }`.
 *
 * @param {Readonly<Record<string, unknown>>} options
 */
export function fromConfig({ url, ...others }) {
  const [unknown] = Object.keys(others)
  if (unknown !== undefined)
    throw invalid(`unknown option ${JSON.stringify(unknown)}; the only option is url`)
  if (typeof url !== 'string' || !/^http:\/\/[\w.-]+:\d+\/$/.test(url))
    throw invalid('url must be http://host:port/')
  return httpLocks(url)
}
