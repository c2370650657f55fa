import { fileURLToPath } from 'node:url'
import { writeAdapterPages } from './lib/adapters.mjs'
import { writeApi } from './lib/api.mjs'
import { writeCommandLine } from './lib/command-line.mjs'
import { writeDecisions } from './lib/decisions.mjs'
import { writeHomeParts } from './lib/home.mjs'

// Writes the generated pages: READMEs, types, the help of the command line. None is committed.

const root = fileURLToPath(new URL('..', import.meta.url))
await writeHomeParts(root)
await writeAdapterPages(root)
await writeCommandLine(root)
await writeDecisions(root)
await writeApi(root)
