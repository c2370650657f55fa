import { join, relative, sep } from 'node:path'
import { importsIn } from './import-cycles.mjs'

/** The rooms of core. Each imports only from those after it. */
const rooms = ['conformance', 'config', 'api', 'engine', 'adapter']

/** What the package exports: these collect names from any room, and no source imports them. */
const entryPoints = ['index.ts', 'adapter/index.ts', 'conformance/index.ts']

/**
 * Fails on an import between rooms of core that is against their order, types included.
 *
 * @param {string} root the repository
 */
export async function checkRoomOrder(root) {
  const found = await againstOrder(join(root, 'packages', 'core', 'src'))
  const order = `the order of the rooms is ${rooms.join(' → ')}; see docs/decisions/0021`
  return {
    exitCode: found.length === 0 ? 0 : 1,
    output: [...found, ...found.slice(0, 1).fill(order)].join('\n'),
  }
}

/**
 * Imports against the order of rooms, one line for each.
 *
 * @param {string} folder the sources of core
 * @returns {Promise<string[]>}
 */
export async function againstOrder(folder) {
  /** @param {string} file */
  const name = (file) => relative(folder, file).replaceAll(sep, '/')
  const pairs = [...(await importsIn(folder))].flatMap(([from, targets]) =>
    targets.map((to) => [name(from), name(to)]),
  )
  return pairs.flatMap(([from = '', to = '']) => {
    if (entryPoints.includes(from)) return []
    if (entryPoints.includes(to))
      return [`${from} imports ${to}, which is an entry point: import the file it exports`]
    const [above, below] = [roomOf(from), roomOf(to)]
    if (above < 0 || below < 0) return [`${from} imports ${to}, and one of them is not in a room`]
    return above <= below ? [] : [`${from} imports ${to}, against the order of rooms`]
  })
}

/** @param {string} file */
function roomOf(file) {
  return rooms.indexOf(file.split('/', 1)[0] ?? '')
}
