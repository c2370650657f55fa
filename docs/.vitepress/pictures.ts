import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { MarkdownOptions } from 'vitepress'

type MarkdownIt = Parameters<NonNullable<MarkdownOptions['config']>>[0]

/**
 * Inlines SVG images, so that they follow the colours of the page and not those of the system. Their
 * own style, for readers elsewhere, is left out: the theme has one for the same classes.
 */
export function inlinePictures(md: MarkdownIt): void {
  md.core.ruler.push('inline-pictures', (state) => {
    const env: unknown = state.env
    if (typeof env !== 'object' || env === null || !('path' in env)) return
    const folder = dirname(String(env.path))
    for (const { children } of state.tokens)
      for (const token of children ?? []) {
        const source = token.type === 'image' ? (token.attrGet('src') ?? '') : ''
        if (!source.endsWith('.svg')) continue
        token.type = 'html_inline'
        token.content = readFileSync(join(folder, source), 'utf8').replace(
          /<style>[^]*?<\/style>|<!--[^]*?-->/g,
          '',
        )
      }
  })
}
