import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Types and tables of options, from the declaration of each adapter.

/** @typedef {import('../../packages/core/dist/adapter/index.js').Option & { readonly doc: string }} Option */
/**
 * @typedef {{
 *   adapter: string, by?: string, options: Readonly<Record<string, Option>>, transaction?: Declaration,
 * }} Declaration
 */
/** @typedef {import('../../packages/core/dist/adapter/index.js').Declaration} Table */
/** @typedef {readonly [key: string, option: Option]} Row */

const root = fileURLToPath(new URL('../../', import.meta.url))
const WIDTH = 120

/** Packages with an `option-table.ts`: their declarations as built, with the comments of the source as `doc`. */
export async function declarations() {
  /** @type {Map<string, Declaration>} */
  const found = new Map()
  for (const name of (await readdir(join(root, 'packages'))).toSorted()) {
    const files = await readdir(join(root, 'packages', name, 'src'))
    if (!files.includes('option-table.ts')) continue
    /** @type {{ declared: Table, transactionOptions?: Table['options'] }} */
    const { declared, transactionOptions: own } = await import(`../../packages/${name}/dist/option-table.js`)
    const source = await readFile(join(root, 'packages', name, 'src', 'option-table.ts'), 'utf8')
    const tables = Object.entries(declared.options).filter(([key]) => key === 'schema' || key === 'table')
    const options = own && { ...Object.fromEntries(tables), ...own }
    const more = options && { transaction: documented({ ...declared, options }, source) }
    found.set(name, { ...documented(declared, source), ...more })
  }
  return found
}

/**
 * @param {Table} declared
 * @param {string} source
 * @returns {Declaration}
 */
export function documented({ options, ...declared }, source) {
  const comments = new Map(
    [...source.matchAll(/^ +\/\*\* (.+) \*\/\n +(\w+): \{/gm)].map(([, doc, key]) => [key, doc]),
  )
  const rows = Object.entries(options).map(([key, option]) => {
    const doc = comments.get(key)
    if (doc === undefined) throw new Error(`${declared.adapter}: ${key} has no comment of one line above it`)
    return [key, { ...option, doc }]
  })
  return { ...declared, options: Object.fromEntries(rows) }
}

/**
 * Every file with generated parts: its path, its text, and what the text should be.
 *
 * @param {ReadonlyMap<string, Declaration>} all
 */
export async function generatedFiles(all) {
  /** @type {{ path: string, text: string, wanted: string }[]} */
  const files = []
  for (const [name, declared] of all) {
    const folder = join('packages', name)
    files.push(await generated(join(folder, 'README.md'), (text) => withTable(text, declared)))
    for (const file of await readdir(join(root, folder, 'src'), { recursive: true }))
      if (file.endsWith('.ts'))
        files.push(await generated(join(folder, 'src', file), (text) => withInterfaces(text, declared)))
  }
  const types = join('packages', 'core', 'src', 'config', 'types.ts')
  files.push(await generated(types, (text) => withConfigs(text, [...all.values()])))
  return files
}

/**
 * @param {string} path
 * @param {(text: string) => string} write
 */
async function generated(path, write) {
  const text = await readFile(join(root, path), 'utf8')
  return { path: join(root, path), text, wanted: write(text) }
}

/**
 * The README's table.
 *
 * @param {string} text
 * @param {Declaration} declared
 */
export function withTable(text, declared) {
  const rows = rowsOf(declared).map(([key, option]) => {
    const only = (option.only ?? []).filter((value) => value !== undefined).map((value) => `\`${value}\``)
    const meaning = only.length === 0 ? option.doc : `${option.doc} Only with ${only.join(', ')}.`
    const cells = [`\`${key}\``, defaultText(option), urlCell(option), meaning]
    return `| ${cells.map((cell) => cell.replaceAll('|', String.raw`\|`)).join(' | ')} |`
  })
  const places = rowsOf(declared).filter(([, { place, only }]) => place === true && only === undefined)
  const table = ['| option | default | in URLs | meaning |', '|---|---|---|---|', ...rows]
  if (places.length > 1)
    table.push('', `Give exactly one of ${places.map(([key]) => `\`${key}\``).join(', ')}.`)
  return between(text, '<!-- options -->', '<!-- /options -->', () => table.join('\n'))
}

/** @param {Option} option */
function urlCell({ inUrl }) {
  return inUrl === true ? 'yes' : (inUrl ?? '')
}

/**
 * The interfaces of an adapter: `// <options NAME SELECTION>`.
 *
 * @param {string} text
 * @param {Declaration} declared
 */
export function withInterfaces(text, declared) {
  return between(text, /^\/\/ <options (\w+) ?([\w -]*)>$/m, '// </options>', (name, selection) => {
    if (selection === 'places') return `export type ${name} =${placesOf(declared)}`
    return `export interface ${name} {\n${members(selected(declared, selection), '  ', typeOf)}\n}`
  })
}

/**
 * Which options an interface has: all of them, those `only` for one value of `by`, those `shared` by all values, or
 * those of a `transaction`.
 *
 * @param {Declaration} declared
 * @param {string} selection
 */
function selected(declared, selection) {
  const rows = inCode(declared)
  if (selection === '') return rows
  if (selection === 'transaction' && declared.transaction !== undefined) return rowsOf(declared.transaction)
  const [, value] = /^only (.+)$/.exec(selection) ?? []
  if (value !== undefined) return rows.filter(([, { only }]) => only?.includes(value))
  if (selection === 'shared') return rows.filter((row) => isShared(declared, row))
  throw new Error(`unknown selection of options: ${selection}`)
}

/**
 * A union with one member for each option that says where the store is.
 *
 * @param {Declaration} declared
 */
function placesOf(declared) {
  const places = rowsOf(declared).filter(([, { place }]) => place === true)
  const cases = places.map((row) => {
    const others = places.filter((other) => other !== row).map(([key]) => `      readonly ${key}?: never`)
    return `\n  | {\n${[members([required(row)], '      ', typeOf), ...others].join('\n')}\n    }`
  })
  return cases.join('')
}

/**
 * What `openLocks` takes for each adapter.
 *
 * @param {string} text
 * @param {readonly Declaration[]} all
 */
export function withConfigs(text, all) {
  const types = all.map((declared) => `type ${configName(declared)} = ${configType(declared)}`)
  return between(text, '// <options>', '// </options>', () => types.join('\n\n'))
}

/** @param {Declaration} declared */
function configName({ adapter }) {
  const name = adapter.replace('@locks/', '')
  return `${name[0]?.toUpperCase()}${name.slice(1)}Config`
}

/** @param {Declaration} declared */
function configType(declared) {
  const rows = inCode(declared).filter(([, option]) => option.kind !== 'value' || option.json !== undefined)
  const places = rows.filter(([, { only, place }]) => only === undefined && place === true).map(required)
  const shared = rows.filter((row) => isShared(declared, row))
  // A place that is the only one in a config stands beside the other options.
  const others = places.length === 1 ? [...places, ...shared] : shared
  const parts = [
    ...(places.length > 1 ? [`OneOf<${block(places)}>`] : []),
    ...(others.length > 0 ? [block(others)] : []),
    ...casesOf(declared, rows),
  ]
  return parts.join(' & ')
}

/**
 * One type for each set of options that go together, by the value of `by`.
 *
 * @param {Declaration} declared
 * @param {readonly Row[]} rows
 */
function casesOf({ by }, rows) {
  const choice = rows.find(([key]) => key === by)?.[1]
  if (by === undefined || choice?.kind !== 'choice') return []
  /** @type {Map<string, (string | undefined)[]>} */
  const cases = new Map()
  const named = choice.of.filter((value) => value !== false)
  for (const value of [...named, ...(choice.default === undefined ? [undefined] : [])]) {
    const keys = optionsFor(rows, value).map(([key]) => key)
    cases.set(keys.join(), [...(cases.get(keys.join()) ?? []), value])
  }
  const types = [...cases.values()].map((values) => {
    const isOptional = values.includes(undefined) || values.some((value) => value === choice.default)
    const type = values.flatMap((value) => (value === undefined ? [] : [`'${value}'`])).join(' | ')
    const own = optionsFor(rows, values[0]).map((row) => (row[1].place === true ? required(row) : row))
    const tag = member([by, choice], '      ', type, isOptional)
    return `  | {\n${[tag, ...(own.length === 0 ? [] : [members(own, '      ', jsonOf)])].join('\n')}\n    }`
  })
  return [`(\n${types.join('\n')}\n)`]
}

/**
 * @param {readonly Row[]} rows
 * @param {string | undefined} value
 */
function optionsFor(rows, value) {
  return rows.filter(([, { only }]) => only?.includes(value))
}

/** @param {readonly Row[]} rows */
function block(rows) {
  return `{\n${members(rows, '  ', jsonOf)}\n}`
}

/**
 * @param {readonly Row[]} rows
 * @param {string} indent
 * @param {(option: Option) => string} type
 */
function members(rows, indent, type) {
  return rows.map((row) => member(row, indent, type(row[1]), row[1].required !== true)).join('\n')
}

/**
 * @param {Row} row
 * @param {string} indent
 * @param {string} type
 * @param {boolean} isOptional
 */
function member([key, option], indent, type, isOptional) {
  const text = defaultText(option)
  const doc = text === '' ? option.doc : `${option.doc} Default: ${text}.`
  return `${comment(doc, indent)}\n${indent}readonly ${key}${isOptional ? '?' : ''}: ${type}`
}

/**
 * @param {string} doc
 * @param {string} indent
 */
function comment(doc, indent) {
  const line = `${indent}/** ${doc} */`
  if (line.length <= WIDTH) return line
  const lines = ['']
  for (const word of doc.split(' ')) {
    const last = lines.at(-1) ?? ''
    if (`${indent} * ${last} ${word}`.length > WIDTH) lines.push(word)
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`
  }
  return [`${indent}/**`, ...lines.map((one) => `${indent} * ${one}`), `${indent} */`].join('\n')
}

/** @param {Option} option */
function typeOf(option) {
  switch (option.kind) {
    case 'duration':
      return 'Duration'
    case 'integer':
      return 'number'
    case 'boolean':
      return 'boolean'
    case 'choice':
      return option.of.map((value) => (value === false ? 'false' : `'${value}'`)).join(' | ')
    case 'text':
      return 'string'
    case 'value':
      return option.type
  }
}

/** @param {Option} option */
function jsonOf(option) {
  return option.kind === 'value' ? (option.json ?? 'never') : typeOf(option)
}

/** @param {Option} option */
function defaultText(option) {
  if (option.otherwise !== undefined) return option.otherwise
  if (option.kind === 'value' || option.default === undefined) return ''
  if (option.kind === 'duration' && option.default !== undefined) return durationText(option.default)
  if (typeof option.default === 'number') return String(option.default)
  return option.default === '' ? "`''`" : `\`${option.default}\``
}

/** @param {number} ms */
function durationText(ms) {
  if (ms === 86_400_000) return 'a day'
  return ms >= 1_000 && ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`
}

/** @param {Declaration} declared @returns {readonly Row[]} */
function rowsOf({ options }) {
  return Object.entries(options)
}

/** Without those that stand only in URLs. @param {Declaration} declared */
function inCode(declared) {
  return rowsOf(declared).filter(([, { inUrl }]) => inUrl !== 'only')
}

/** @param {Declaration} declared @param {Row} row */
function isShared({ by }, [key, { only, place }]) {
  return key !== by && only === undefined && place !== true
}

/** @param {Row} row @returns {Row} */
function required([key, option]) {
  return [key, { ...option, required: true }]
}

/**
 * Replaces what stands between each pair of markers.
 *
 * @param {string} text
 * @param {string | RegExp} open
 * @param {string} close
 * @param {(...groups: string[]) => string} write
 */
function between(text, open, close, write) {
  const marker = typeof open === 'string' ? open : open.source.slice(1, -1)
  const part = new RegExp(`^(${marker})$[^]*?^${close}$`, 'gm')
  return text.replaceAll(part, (_, begin, ...groups) => {
    const strings = groups.filter((group) => typeof group === 'string').slice(0, -1)
    return `${begin}\n${write(...strings)}\n${close}`
  })
}
