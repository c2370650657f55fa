import { readdirSync, readFileSync } from 'node:fs'
import { extname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

// Finds phrases that readers stumble over, and names a better one. The vocabulary is in docs/glossary.md.

/** @typedef {{ readonly phrase: RegExp, readonly better: string, readonly only?: RegExp }} Habit */

/** What users and authors of adapters read. */
const published = /^(README\.md|CONTRIBUTING\.md|docs\/.*\.md|packages\/[^/]+\/(src\/.*|README\.md))$/

const sources = /^packages\/[^/]+\/src\//

/**
 * `only` limits a habit to the files whose path matches.
 *
 * @type {readonly Habit[]}
 */
export const habits = [
  { phrase: /\bwhoever\b/i, better: 'the holder, the waiter, the caller' },
  {
    phrase: /\b(somebody|anybody|everybody)( else)?\b/i,
    better: 'another client, any client, all clients',
    only: /\.md$/,
  },
  { phrase: /\bunless told\b/i, better: 'Default: …' },
  { phrase: /^\s*(\/\*\*|\/\/|\*) Answers\b/, better: 'Returns' },
  { phrase: /\btraps? [0-9]/i, better: 'the outcome' },
  { phrase: /\bI(1[01]|[1-9])\b(?=[–:,')\]])/, better: 'its name: exclusion, fence-order, …' },
  { phrase: /\bfor ever\b/i, better: 'forever' },
  { phrase: /\bin earnest\b/i, better: 'in production' },
  { phrase: /\btold apart\b/i, better: 'distinguished, identified' },
  { phrase: /\bof (its|their) own accord\b/i, better: 'by itself' },
  { phrase: /\bbehind (its|their|his|everybody's) back\b/i, better: 'say what happens' },
  { phrase: /\bhas not got\b/i, better: 'does not have' },
  { phrase: /\b(can|cannot|may|to) be had\b/i, better: 'can be acquired, is available' },
  { phrase: /\bcannot mend\b|\bmended\b/i, better: 'fix, fixed' },
  { phrase: /\bbelieves? in\b/i, better: 'rely on' },
  { phrase: /\bfences? (still )?tells?\b/i, better: 'the fence identifies the stale holder' },
  { phrase: /\bproves? (an|every|each|the) adapters?\b|\bproves every one\b/i, better: 'tests' },
  {
    phrase: /(?<!there )\bis no (adapter|lease|grant|heir|majority|name|contention|escape)\b/i,
    better: 'is not a …',
  },
  { phrase: /\bno one else has\b/i, better: 'compare facts' },
  { phrase: /\b(told|hears|heard)\b/i, better: 'reported, received', only: published },
  { phrase: /\bwhatever\b/i, better: 'say the case', only: published },
  // One word, one meaning. `maxmemory-policy` of Redis does evict.
  { phrase: /\bevict\w*\b/, better: 'break, breakHold', only: /^packages\/(sql|mysql|postgres|zookeeper)\// },
  { phrase: /\bvacat\w*\b/i, better: 'release, holdEnded' },
  { phrase: /\babandon\w*\b/i, better: 'withdraw (an attempt), end, discard (a connection)', only: sources },
  { phrase: /\bleave\(/, better: 'withdraw, remove, end', only: sources },
  { phrase: /\bnotices\b(?= of\b)|\blost notification\b/i, better: 'hint' },
  { phrase: /\bPlace\b/, better: 'Tables', only: /^packages\/(sql|mysql|postgres)\/src\/(?!drivers)/ },
]

/** Longest line of a source file, comments included. */
const WIDTH = 120

/** What is checked. */
const folders = ['bench', 'conformance', 'docs', 'examples', 'packages', 'scripts']
const kinds = new Set(['.js', '.java', '.md', '.mjs', '.ts'])
const skippedFolders = new Set(['node_modules', 'dist', 'generated', '.cache', 'cache', '.turbo', 'target'])
/** Generated, or about words. */
const skippedFiles =
  /^(docs\/(api|adapters)\/|docs\/command-line\.md|docs\/glossary\.md|scripts\/words\.)|(words\.test\.ts|CHANGELOG\.md)$/

/** @typedef {{ readonly file: string, readonly line: number, readonly found: string, readonly better: string }} Finding */

/**
 * The findings in one file. `file` is relative to the repository.
 *
 * @param {string} file
 * @param {string} text
 * @returns {Finding[]}
 */
export function findingsIn(file, text) {
  return text.split('\n').flatMap((content, n) => {
    const line = n + 1
    const found = habits.flatMap(({ phrase, better, only }) => {
      if (only !== undefined && !only.test(file)) return []
      const match = phrase.exec(content)
      return match === null ? [] : [{ file, line, found: match[0].trim(), better }]
    })
    if (sources.test(file) && content.length > WIDTH)
      found.push({ file, line, found: `${content.length} characters`, better: `at most ${WIDTH}` })
    return found
  })
}

/**
 * @param {string} path
 * @returns {string[]}
 */
function filesIn(path) {
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    const child = join(path, entry.name)
    if (entry.isDirectory()) return skippedFolders.has(entry.name) ? [] : filesIn(child)
    return kinds.has(extname(entry.name)) ? [child] : []
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, '..')
  const atRoot = readdirSync(root).filter((name) => kinds.has(extname(name)))
  const paths = [
    ...atRoot.map((name) => join(root, name)),
    ...folders.flatMap((path) => filesIn(join(root, path))),
  ]
  const files = paths.map((file) => relative(root, file))
  const checked = files.filter((file) => !skippedFiles.test(file))
  const findings = checked.flatMap((file) => findingsIn(file, readFileSync(join(root, file), 'utf8')))
  for (const { file, line, found, better } of findings) console.log(`${file}:${line}  "${found}" → ${better}`)
  console.log(`${findings.length} findings in ${checked.length} files`)
  process.exitCode = findings.length === 0 ? 0 : 1
}
