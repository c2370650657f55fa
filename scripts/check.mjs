import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bootstrap } from './bootstrap.mjs'
import { checkImportCycles } from './lib/import-cycles.mjs'
import { checkMetadata } from './lib/metadata.mjs'
import { packAll } from './lib/packages.mjs'
import { checkRoomOrder } from './lib/room-order.mjs'
import { CommandFailed, run, runMain, step } from './lib/run.mjs'
import { packSmoke } from './pack-smoke.mjs'

await runMain(async () => {
  await bootstrap()
  const folder = await mkdtemp(join(tmpdir(), 'locks-check-'))
  try {
    const packed = await packAll(folder)
    const tarballs = packed.map(({ tarball }) => tarball)
    return await runAll([
      ['format', () => run('oxfmt', ['--check', '.'])],
      ['lint', () => run('oxlint', [])],
      ['words', () => run(process.execPath, ['scripts/words.mjs'])],
      ['types', () => run('tsc', ['-b'])],
      ['import-cycles', () => checkImportCycles(join(import.meta.dirname, '..'))],
      ['room-order', () => checkRoomOrder(join(import.meta.dirname, '..'))],
      ['metadata', () => checkMetadata(packed)],
      ['publint', () => forEach(tarballs, (tarball) => run('publint', ['run', tarball, '--strict']))],
      ['attw', () => forEach(tarballs, (tarball) => run('attw', [tarball, '--profile', 'esm-only']))],
      ['knip', () => run('knip', [])],
      ['spec', () => run(process.execPath, ['scripts/spec.mjs', '--check'])],
      ['options', () => run(process.execPath, ['scripts/options.mjs', '--check'])],
      ['measured', () => run(process.execPath, ['scripts/behaviour.mjs', '--check'])],
      ['site', () => run('pnpm', ['--filter', '@locks/docs', 'site'])],
      ['pack-smoke', () => packSmoke(packed)],
    ])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

/** @typedef {{ exitCode: number, output: string }} Result */

/**
 * Every check runs, even if an earlier one failed.
 *
 * @param {readonly (readonly [string, () => Promise<Result>])[]} checks
 */
async function runAll(checks) {
  /** @type {string[]} */
  const failed = []
  for (const [name, check] of checks) {
    try {
      await step(name, check)
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error
      failed.push(name)
    }
  }
  console.log(failed.length === 0 ? `all ${checks.length} checks passed` : `failed: ${failed.join(', ')}`)
  return failed.length === 0 ? 0 : 1
}

/**
 * @param {readonly string[]} items
 * @param {(item: string) => Promise<Result>} check
 * @returns {Promise<Result>}
 */
async function forEach(items, check) {
  const results = []
  for (const item of items) results.push(await check(item))
  return {
    exitCode: results.find(({ exitCode }) => exitCode !== 0)?.exitCode ?? 0,
    output: results.map(({ output }) => output).join('\n'),
  }
}
