import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const docs = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Builds the site as `pnpm check` does, into a new folder. Fails on a dead link. */
export async function buildSite(folder: string): Promise<void> {
  const vitepress = join(docs, 'node_modules/vitepress/bin/vitepress.js')
  await run(process.execPath, ['prepare.mjs'], { cwd: docs })
  await run(process.execPath, [vitepress, 'build', '--outDir', folder], { cwd: docs })
}
