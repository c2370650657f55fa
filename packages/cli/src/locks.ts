import { main } from './main.ts'

const code = await main(process.argv.slice(2))
process.exitCode = code
// What an adapter left open must not keep a finished command from ending, once its output is out.
process.stdout.write('', () =>
  process.stderr.write('', () => setTimeout(() => process.exit(code), 1_000).unref()),
)
