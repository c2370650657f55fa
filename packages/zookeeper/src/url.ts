import { plainUrl } from '@locks/core/adapter'
import { invalid } from './errors.ts'

/** The options in a URL. Several hosts make it no URL of the platform's parser. */
export function parseUrl(url: unknown): Readonly<Record<string, unknown>> {
  const form = /^zookeeper:\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/.exec(
    typeof url === 'string' ? plainUrl(url) : '',
  )
  // Not the URL itself: it may carry a password.
  if (form === null)
    throw invalid('url must be zookeeper://[user:password@]host:port,host:port[/chroot][?option=value]')
  const [, user, hosts = '', chroot = '', query = ''] = form
  const options = Object.fromEntries(
    [...new URLSearchParams(query)].map(([key, value]) => [key, optionOf(key, value)]),
  )
  const servers = `${hosts}${chroot === '/' ? '' : decoded(chroot)}`
  if (user === undefined) return { ...options, servers }
  return { ...options, servers, auth: { scheme: 'digest', credentials: decoded(user) } }
}

function optionOf(key: string, value: string): unknown {
  switch (key) {
    case 'sessionTimeoutMs':
      return /^\d+$/.test(value) ? Number(value) : value
    case 'rawPath':
      return value === 'true' ? true : value === 'false' ? false : value
    case 'basePath':
    case 'acl':
      return value
    default:
      throw invalid(
        `unknown option ${JSON.stringify(key)} in url; known: sessionTimeoutMs, basePath, rawPath, acl`,
      )
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid('url has a % that is no escape')
  }
}
