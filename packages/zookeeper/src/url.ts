import { plainUrl, queryOptions, wrongOption } from '@locks/core/adapter'
import { invalid } from './errors.ts'
import { declared } from './option-table.ts'

export interface ParsedUrl {
  readonly servers: string
  /** Options of the adapter: those behind the question mark, and the user as `auth`. */
  readonly extra: Readonly<Record<string, unknown>>
}

/** By hand: `URL` refuses several hosts. No message shows the URL, which may carry a password. */
export function parseUrl(url: string): ParsedUrl {
  const form = /^zookeeper:\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/.exec(plainUrl(url))
  if (form === null) throw wrongOption(declared, 'url')
  const [, user, hosts = '', chroot = '', query = ''] = form
  const servers = `${hosts}${chroot === '/' ? '' : decoded(chroot)}`
  const extra = queryOptions(declared, new URLSearchParams(query))
  if (user === undefined) return { servers, extra }
  return { servers, extra: { ...extra, auth: { scheme: 'digest', credentials: decoded(user) } } }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('invalid percent-encoding in url')
  }
}
