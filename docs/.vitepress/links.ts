import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { MarkdownOptions } from 'vitepress'
import { repositoryUrl } from './repository.ts'

type MarkdownIt = Parameters<NonNullable<MarkdownOptions['config']>>[0]

const root = join(import.meta.dirname, '../..')
const repository = repositoryUrl(root)

/**
 * Pages are written for readers of the repository: their links are paths in it. Here a link becomes the
 * page of its target if there is one, otherwise a link to the repository, or plain text if no repository is known.
 */
export function siteLinks(md: MarkdownIt): void {
  md.core.ruler.push('site-links', (state) => {
    const env: unknown = state.env
    const page =
      typeof env === 'object' && env !== null && 'relativePath' in env ? String(env.relativePath) : ''
    for (const { children } of state.tokens) {
      let hidden = 0
      for (const token of children ?? []) {
        if (token.type === 'link_open') {
          const href = siteLink(page, token.attrGet('href') ?? '')
          if (href === undefined) hidden += 1
          else token.attrSet('href', href)
          if (href === undefined) token.type = 'text'
        } else if (token.type === 'link_close' && hidden > 0) {
          hidden -= 1
          token.type = 'text'
        }
      }
    }
  })
}

/** Undefined if the site has no such page. */
function siteLink(page: string, href: string): string | undefined {
  if (/^([a-z][a-z0-9+.-]*:|[/#])/i.test(href)) return href
  const [path = '', anchor] = href.split('#')
  const target = posix.join(posix.dirname(sourceOf(page)), path).replace(/\/$/, '')
  // A broken link is left to the dead-link check.
  const to = existsSync(join(root, target)) ? pageOf(target) : posix.join('/', target)
  return to === undefined || anchor === undefined || to.includes('#') ? to : `${to}#${anchor}`
}

/** The file whose text a page shows. */
function sourceOf(page: string): string {
  const adapter = /^adapters\/(\w+)\.md$/.exec(page)?.[1]
  if (adapter !== undefined) return `packages/${adapter}/README.md`
  if (page === 'command-line.md') return 'packages/cli/README.md'
  if (page === 'index.md') return 'README.md'
  return `docs/${page}`
}

function pageOf(target: string): string | undefined {
  const name = /^packages\/(\w+)(\/README\.md)?$/.exec(target)?.[1]
  if (name === 'cli') return '/command-line.md'
  if (name !== undefined)
    return [`/adapters/${name}.md`, `/api/${name}.md`].find((page) => existsSync(join(root, 'docs', page)))
  if (target === 'README.md') return '/index.md'
  if (target === 'packages/core/src/adapter/spi.ts') return '/api/core/adapter.md#adapter'
  if (target === 'docs/decisions') return '/decisions/index.md'
  if (target.startsWith('docs/')) return target.slice('docs'.length)
  return repository === undefined ? undefined : `${repository}/tree/HEAD/${target}`
}
