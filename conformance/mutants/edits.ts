import type { Edit } from './mutant.ts'

/** An edit of the memory adapter. */
export const adapter = (find: string, replace: string): Edit => ({
  file: 'memory/adapter.js',
  find,
  replace,
})

/** An edit of a file of core's. */
export const core =
  (file: string) =>
  (find: string, replace: string): Edit => ({ file: `core/${file}.js`, find, replace })

/** An edit of how the reference adapter uses its connection. */
export const link = (find: string, replace: string): Edit => ({ file: 'reference/link.js', find, replace })
