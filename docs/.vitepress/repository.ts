import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where the sources are, if the manifest of core says so: `git+https://host/owner/name.git` as a browser opens it. */
export function repositoryUrl(root: string): string | undefined {
  const manifest: unknown = JSON.parse(readFileSync(join(root, 'packages/core/package.json'), 'utf8'))
  if (typeof manifest !== 'object' || manifest === null || !('repository' in manifest)) return undefined
  const { repository } = manifest
  const url =
    typeof repository === 'object' && repository !== null && 'url' in repository ? repository.url : repository
  const [, address] = /^(?:git\+)?(https:\/\/[^/]+\/.+?)(?:\.git)?\/?$/.exec(String(url)) ?? []
  return address
}
