import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..')

/** A failed command. Its `message` is complete, so its stack is not printed. */
export class CommandFailed extends Error {
  /**
   * @param {string} message
   * @param {number} exitCode
   */
  constructor(message, exitCode) {
    super(message)
    this.exitCode = exitCode
  }
}

/**
 * @typedef {object} RunOptions
 * @property {string} [cwd]
 * @property {Record<string, string | undefined>} [env] added to the environment of this process
 * @property {boolean} [inherit] share this terminal instead of collecting the output
 */

/**
 * Runs a command to its end. A signal sent to this process reaches the command first, and this
 * process stays until the command is gone.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} [options]
 * @returns {Promise<{ exitCode: number, stdout: string, output: string }>}
 */
export function run(command, args, { cwd = root, env = {}, inherit = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, PATH: searchPath(), ...env },
      stdio: inherit ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    })
    let stdout = ''
    let output = ''
    child.stdout?.setEncoding('utf8').on('data', (text) => {
      stdout += text
      output += text
    })
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    const stopForwarding = forwardSignals(child)
    child.once('error', (error) => {
      stopForwarding()
      reject(new CommandFailed(`cannot start ${command}: ${error.message}`, 1))
    })
    child.once('close', (code, signal) => {
      const interrupted = stopForwarding()
      if (interrupted && !inherit) process.exit(signalExitCode(interrupted))
      resolve({ exitCode: signal ? signalExitCode(signal) : (code ?? 1), stdout, output })
    })
  })
}

/**
 * Runs one named step: a short line when it works, its full output when it does not.
 *
 * @param {string} label
 * @param {() => Promise<{ exitCode: number, output: string }>} work
 */
export async function step(label, work) {
  const started = performance.now()
  process.stdout.write(`▸ ${label}…`)
  const { exitCode, output } = await work()
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  process.stdout.write(exitCode === 0 ? `  done ${seconds}s\n` : `  failed ${seconds}s\n`)
  if (exitCode === 0) return
  process.stdout.write(output.endsWith('\n') ? output : `${output}\n`)
  throw new CommandFailed(`${label} failed`, exitCode)
}

/**
 * Runs a script's main function and turns its failure into one line and an exit code.
 *
 * @param {() => Promise<number | void>} main
 */
export async function runMain(main) {
  try {
    process.exitCode = (await main()) ?? 0
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error
    console.error(error.message)
    process.exitCode = error.exitCode
  }
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @returns {() => NodeJS.Signals | undefined} stops forwarding and names the signal seen, if any
 */
function forwardSignals(child) {
  /** @type {NodeJS.Signals | undefined} */
  let seen
  /** @param {NodeJS.Signals} signal */
  const forward = (signal) => {
    const first = seen === undefined
    seen ??= signal
    // A terminal has already sent Ctrl-C to the whole process group, and npm sends it again; the
    // command would take a second one for "stop at once".
    if (first && !(signal === 'SIGINT' && process.stdin.isTTY)) child.kill(signal)
  }
  process.on('SIGINT', forward)
  process.on('SIGTERM', forward)
  return () => {
    process.off('SIGINT', forward)
    process.off('SIGTERM', forward)
    return seen
  }
}

/** @param {NodeJS.Signals} signal */
function signalExitCode(signal) {
  return 128 + constants.signals[signal]
}

function searchPath() {
  return [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter)
}
