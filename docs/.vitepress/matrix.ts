import type { MarkdownOptions } from 'vitepress'

type MarkdownIt = Parameters<NonNullable<MarkdownOptions['config']>>[0]

const states: readonly (readonly [RegExp, string])[] = [
  [/^\d+$/, 'passed'],
  [/^✗ \d+$/, 'failed'],
  [/^\? \d+$/, 'not tried'],
  [/^n\/a \d+$/, 'not applicable'],
]

/** Colours the counts in the tables of the matrix. The page itself has plain text. */
export function matrixColours(md: MarkdownIt): void {
  md.core.ruler.push('matrix-colours', (state) => {
    const env: unknown = state.env
    if (typeof env !== 'object' || env === null || !('relativePath' in env)) return
    if (env.relativePath !== 'matrix.md') return
    for (const { children } of state.tokens)
      for (const token of children ?? []) {
        const name = states.find(([pattern]) => pattern.test(token.content))?.[1]
        if (token.type !== 'text' || name === undefined) continue
        token.type = 'html_inline'
        token.content = `<span class="${name.replace(' ', '-')}" title="${name}">${token.content}</span>`
      }
  })
}
