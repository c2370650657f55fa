import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'

// Findings of `diagnose` have one style in all packages, that of error messages: clauses in lower case, joined with
// colons and semicolons, without a full stop. So a finding can be the text of an error (`inOneLine`).

const packages = join(import.meta.dirname, '..', '..', 'packages')
/** Names, which begin with a capital anywhere. */
const names = /^(Redis|PostgreSQL|MySQL|MariaDB|ZooKeeper|Galera|Sentinels?|PgBouncer)\b/
const adapters = ['cas', 'cli', 'mysql', 'postgres', 'redis', 'redlock', 'sql', 'zookeeper']

/** The sources that build findings: with `ok`, `warning` and `danger` of core, or as objects. */
async function sources(): Promise<readonly (readonly [string, string])[]> {
  const found: [string, string][] = []
  for (const file of await readdir(packages, { recursive: true })) {
    if (!/^(?!core)[^/]+\/src\/.*\.ts$/.test(file)) continue
    const text = await readFile(join(packages, file), 'utf8')
    if (
      /import \{[^}]*\b(ok|warning|danger|verdicts)\b[^}]*\} from '@locks\/core|level: 'warning'/.test(text)
    )
      found.push([file, text])
  }
  return found
}

/** The texts in a source: strings with a space in them. */
function textsIn(source: string): readonly string[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
  const strings = code.matchAll(/'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g)
  return [...strings].map((groups) => groups.slice(1).join('')).filter((text) => /\S \S/.test(text))
}

const sentence = (text: string): boolean =>
  (/^[A-Z][a-z]/.test(text) && !names.test(text)) || /[.!]$/.test(text) || /[.!] [A-Z]/.test(text)

test('findings of all packages are clauses, not sentences with a full stop', async () => {
  const found = await sources()
  expect(new Set(found.map(([file]) => file.split('/')[0]))).toEqual(new Set(adapters))
  const texts = found.flatMap(([file, source]) => textsIn(source).map((text) => `${file}: ${text}`))
  expect(texts.length).toBeGreaterThan(150)
  const wrong = found.flatMap(([file, source]) =>
    textsIn(source)
      .filter(sentence)
      .map((text) => [file, text]),
  )
  expect(wrong).toEqual([])
})

test.each(['Set it to 1.', 'set it to 1.', 'Set it to 1', 'leases last a second. Find out why'])(
  '%s is found',
  (text) => {
    expect(textsIn(`danger('x', '${text}')`).filter(sentence)).toEqual([text])
  },
)
