import type { LocksConfig } from '@locks/core'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { scaled } from '../services/timing.ts'

const run = promisify(execFile)

export const program = join(import.meta.dirname, 'program.fixture.mjs')

/** What the program prints on every backend. */
export const expected = {
  refused: true,
  timedOut: true,
  rising: true,
  seen: true,
  free: true,
  result: 'held',
  lost: true,
}

/**
 * Runs the program to its end, by Node unless another command is given. A URL is passed by the environment, anything
 * else as an argument: the program itself is the same.
 */
export async function outcomeOn(
  config: LocksConfig,
  [command, ...args]: readonly [string, ...string[]] = [process.execPath],
): Promise<unknown> {
  const { LOCKS_URL: _, ...env } = process.env
  const isUrl = typeof config === 'string'
  const { stdout } = await run(command, [...args, program, ...(isUrl ? [] : [JSON.stringify(config)])], {
    cwd: join(import.meta.dirname, '..'),
    env: isUrl ? { ...env, LOCKS_URL: config } : env,
    timeout: scaled(90_000),
  })
  return JSON.parse(stdout)
}
