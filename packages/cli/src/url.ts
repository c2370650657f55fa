/** Whatever the scheme: which of them are known is for core to say. A single letter is a drive of Windows. */
export function isUrl(text: string): boolean {
  return /^[a-z][a-z0-9+.-]+:/i.test(text)
}

/** A URL as it may be shown: without what may be a password, though it be written wrongly. */
export function showUrl(url: string): string {
  // There is none in a path, but perhaps an @.
  if (/^file:/i.test(url)) return url
  // Greedy on purpose: a password may contain what ends one elsewhere.
  return url
    .replace(/\/\/.*@/s, '//')
    .replace(/^([^:]*:)?.*@/s, '$1')
    .replace(/\?.*$/s, '')
}

/** An argument in a message about it. A URL may have got into any place by mistake. */
export function quoted(text: string): string {
  return JSON.stringify(isUrl(text) ? showUrl(text) : text)
}
