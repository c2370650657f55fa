/** Accepts any scheme: core knows the valid ones. A single letter is a Windows drive. */
export function isUrl(text: string): boolean {
  return /^[a-z][a-z0-9+.-]+:/i.test(text)
}

/** A URL without anything that may be a password, even if the URL is malformed. */
export function showUrl(url: string): string {
  // A path has no password, but may contain an @.
  if (/^file:/i.test(url)) return url
  // Greedy on purpose: a password may contain what ends one elsewhere.
  return url
    .replace(/\/\/.*@/s, '//')
    .replace(/^([^:]*:)?.*@/s, '$1')
    .replace(/\?.*$/s, '')
}

/** An argument as shown in a message. Any argument may be a URL by mistake. */
export function quoted(text: string): string {
  return JSON.stringify(isUrl(text) ? showUrl(text) : text)
}
