import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { siteLinks } from './links.ts'
import { matrixColours } from './matrix.ts'
import { inlinePictures } from './pictures.ts'
import { repositoryUrl } from './repository.ts'

const docs = join(import.meta.dirname, '..')
const repository = repositoryUrl(join(docs, '..'))

/** The pages of a folder, named by their first heading. */
function pagesIn(folder: string): { text: string; link: string }[] {
  return readdirSync(join(docs, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && file !== 'index.md')
    .toSorted()
    .map((file) => ({ text: titleOf(join(docs, folder, file)), link: `/${folder}/${file}` }))
}

function titleOf(file: string): string {
  return /^# (.*)$/m.exec(readFileSync(file, 'utf8'))?.[1] ?? file
}

export default defineConfig({
  title: '@locks',
  description: 'Distributed locks for Node and TypeScript',
  lang: 'en',
  head: [['link', { rel: 'icon', href: '/logo.svg', type: 'image/svg+xml' }]],
  markdown: {
    config(md) {
      md.use(siteLinks).use(inlinePictures).use(matrixColours)
    },
  },
  themeConfig: {
    logo: '/logo.svg',
    search: {
      provider: 'local',
      // Rank the prose above the API reference.
      options: {
        miniSearch: {
          searchOptions: { boostDocument: (id: unknown) => (String(id).startsWith('/api/') ? 0.2 : 1) },
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: 'Get started', link: '/getting-started' },
      { text: 'Guide', link: '/guide' },
      { text: 'Adapters', link: '/choosing' },
      { text: 'Conformance', link: '/matrix' },
      { text: 'API', link: '/api/' },
      ...(repository === undefined ? [] : [{ text: 'Source', link: repository }]),
    ],
    sidebar: [
      {
        text: 'Using locks',
        items: [
          { text: 'Getting started', link: '/getting-started' },
          { text: 'Guide', link: '/guide' },
          { text: 'Recipes', link: '/recipes' },
          { text: 'Frameworks', link: '/frameworks' },
          { text: 'Jest and CommonJS', link: '/jest' },
          { text: 'Choosing a backend', link: '/choosing' },
          { text: 'Configuration', link: '/configuration' },
          { text: 'What is guaranteed', link: '/guarantees' },
          { text: 'Threat model', link: '/security' },
          { text: 'Command line', link: '/command-line' },
          { text: 'Torture', link: '/torture' },
          { text: 'What is left of a million names', link: '/leftovers' },
          { text: 'Migrating', link: '/migrating' },
          { text: 'Glossary', link: '/glossary' },
        ],
      },
      { text: 'Adapters', items: pagesIn('adapters') },
      {
        text: 'Writing your own',
        items: [
          { text: 'An adapter', link: '/writing-an-adapter' },
          { text: 'A versioned store', link: '/versioned-stores' },
        ],
      },
      {
        text: 'Conformance',
        items: [
          { text: 'Matrix', link: '/matrix' },
          { text: 'Specification', link: '/spec' },
          { text: 'Decisions', link: '/decisions/' },
        ],
      },
      { text: 'API reference', link: '/api/', collapsed: true, items: pagesIn('api') },
    ],
  },
})
