import { constants } from 'node:os'
import { parseArgs } from 'node:util'
import { killedHolder } from './acts/killed-holder.mjs'
import { pausedHolder } from './acts/paused-holder.mjs'
import { withLock, withoutLock } from './acts/selling.mjs'
import { Unusable, openBackend } from './backend.mjs'
import { bold, dim, green, line, red, seconds } from './screen.mjs'
import { killAll } from './staff.mjs'
import { setStage } from './stage.mjs'

const usage = `npm run demo -- [--url <backend>] [--help]

Four shops, each a separate process, sell from one warehouse: without a lock, with one, with a
holder that is killed and with a holder that sleeps through its lease.

  --url <backend>  the backend: a URL, or a config as JSON; default: a new directory
  --help           this text

The exit code is 0 only if everything the summary says was so.`

/** @type {readonly (readonly [string, import('./stage.mjs').Act])[]} */
const acts = [
  ['Selling without a lock', withoutLock],
  ['Selling with a lock', withLock],
  ['The holder is killed', killedHolder],
  ['The holder sleeps through its lease', pausedHolder],
]

/** @type {import('./backend.mjs').Backend | undefined} */
let backend
let leaving = false

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  // Handle it every time: a terminal and a parent may both send it, and the second must not cut the clean-up short.
  process.on(signal, () => {
    if (!leaving) line(red(`interrupted (${signal})`))
    void leave(128 + constants.signals[signal])
  })
}

// Killing a process at the end may break a call to it. Before that, it is a failure like any other.
process.on('uncaughtException', (error) => {
  if (!leaving) line(red(`✘ ${error.stack ?? error.message}`))
  void leave(1)
})

await leave(await main())

/** Ends every process, even if an act failed. @param {number} exitCode */
async function leave(exitCode) {
  if (leaving) return
  leaving = true
  try {
    // In this order: a running process may still write to what the backend removes.
    await killAll()
    await backend?.stop()
  } finally {
    process.exit(exitCode)
  }
}

async function main() {
  try {
    const { url, help } = readArguments()
    if (help) {
      line(usage)
      return 0
    }
    return await perform(url)
  } catch (error) {
    if (!leaving) line(red(`✘ ${error instanceof Error ? error.message : String(error)}`))
    return error instanceof Unusable ? 2 : 1
  }
}

function readArguments() {
  const options = /** @type {const} */ ({ url: { type: 'string' }, help: { type: 'boolean', short: 'h' } })
  try {
    return parseArgs({ options }).values
  } catch (error) {
    throw new Unusable(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`, {
      cause: error,
    })
  }
}

/** @param {string | undefined} url */
async function perform(url) {
  const start = performance.now()
  backend = await openBackend(url)
  const { scope, kind, wait, fairness, fencing } = backend.capabilities
  line(`${bold('@locks')} on ${backend.title}`)
  line(dim(`scope ${scope}, kind ${kind}, wait ${wait}, fairness ${fairness}, fencing ${fencing}`))
  const stage = await setStage(backend)
  const pids = stage.shops.map(({ pid }) => pid).join(', ')
  line(dim(`shops: pids ${pids}; warehouse: pid ${stage.keeper.pid}`))

  /** @type {import('./stage.mjs').Claim[]} */
  const claims = []
  for (const [n, [title, act]] of acts.entries()) {
    line(`\n${bold(`${n + 1}  ${title}`)}`)
    claims.push(...(await act(stage)))
  }
  await stage.clear()

  const failed = claims.filter(({ held }) => !held).length
  line(`\n${bold('Summary')}`)
  for (const { held, claim } of claims) line(`${held ? green('✔') : red('✘')} ${claim}`)
  line(
    dim(`${claims.length - failed} of ${claims.length} claims held, ${seconds(performance.now() - start)}`),
  )
  return failed === 0 ? 0 : 1
}
