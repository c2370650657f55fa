import { parseDuration } from './duration.ts'
import type { Declaration } from './option-types.ts'
import { invalidOption, wrongOption } from './options.ts'

/** The parts of a URL that may name several hosts. Only the scheme is in lower case, and nothing is decoded. */
export interface UrlParts {
  readonly scheme: string
  /** What stands before the `@`, if anything does. */
  readonly user: string | undefined
  readonly hosts: readonly string[]
  /** Empty, or with its slash. */
  readonly path: string
  readonly query: URLSearchParams
}

/** By hand: `URL` refuses several hosts. No message shows the URL, which may carry a password. */
export function urlParts(declared: Declaration, url: string): UrlParts {
  const parts = /^([a-z][a-z0-9+.-]*):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(\/[^?#]*)?(?:\?([^#]*))?$/.exec(
    plainUrl(url),
  )
  if (parts === null) throw wrongOption(declared, 'url')
  const [, scheme = '', user, hosts = '', path = '', query = ''] = parts
  return { scheme, user, hosts: hosts.split(','), path, query: new URLSearchParams(query) }
}

/** A part of a URL without its percent-encoding. */
export function urlDecoded(declared: Declaration, text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidOption(declared, 'invalid percent-encoding in url')
  }
}

/**
 * The URL with its scheme in lower case and durations such as `…?sessionTtlMs=10s` in milliseconds. Adapters call it
 * where they read their URL, so that it means the same in their own functions and in `openLocks`.
 */
export function plainUrl(url: string): string {
  return url
    .replace(/^[a-z][a-z0-9+.-]*:/i, (scheme) => scheme.toLowerCase())
    .replaceAll(/([?&]\w+Ms=)([^&#]*)/g, (given, key: string, text: string) => {
      const ms = parseDuration(text)
      return ms === undefined ? given : `${key}${ms}`
    })
}
