import { main } from './main.ts'

const code = await main(process.argv.slice(2))
process.exitCode = code
// Whatever an adapter left open must not keep a finished command from ending.
setTimeout(() => process.exit(code), 1_000).unref()
