import { writeFile } from 'node:fs/promises'
import { relative } from 'node:path'
import { parseArgs } from 'node:util'
import { declarations, generatedFiles } from './lib/options.mjs'

// Writes what follows from the declared options: interfaces of the adapters, tables in their READMEs, and the types of
// configs in core. With --check it only says which of them are stale. Reads what is built: build first.

const { values } = parseArgs({ options: { check: { type: 'boolean' } } })
const stale = (await generatedFiles(await declarations())).filter(({ text, wanted }) => text !== wanted)
for (const { path, wanted } of stale) {
  const file = relative(process.cwd(), path)
  if (values.check)
    console.error(`${file} does not show the options as declared; run: node scripts/options.mjs`)
  else {
    await writeFile(path, wanted)
    console.log(`written: ${file}`)
  }
}
if (values.check && stale.length > 0) process.exitCode = 1
