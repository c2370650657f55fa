import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { quote } from './program.ts'

const everyday = ['/usr/local/bin', '/usr/bin', '/usr/local/sbin', '/usr/sbin', '/opt/homebrew/bin']

/** Where to look: PATH, then the usual places; LOCKS_TEST_BIN_PATH replaces them all. */
export function directories(usual: readonly string[] = []): readonly string[] {
  const instead = process.env['LOCKS_TEST_BIN_PATH']
  if (instead !== undefined) return split(instead)
  return [...split(process.env['PATH'] ?? ''), ...usual, ...everyday]
}

function split(path: string): string[] {
  return path.split(delimiter).filter((directory) => directory !== '')
}

/** The first directory that holds all of these commands, since versions must not be mixed. */
export function directoryOf(commands: readonly string[], among: readonly string[]): string | undefined {
  return among.find((directory) => commands.every((command) => isExecutable(join(directory, command))))
}

/** Subdirectories such as `15` or `postgresql@17`, the highest version first. */
export function byVersion(parent: string, pattern: RegExp): string[] {
  return listIfThere(parent)
    .filter((name) => pattern.test(name))
    .toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    .map((name) => join(parent, name))
}

/** Shell text that puts these directories first. */
export function onPath(...places: readonly string[]): string {
  return `PATH=${quote(places.join(delimiter))}:$PATH`
}

export function isThere(path: string): boolean {
  return isAccessible(path, constants.R_OK)
}

function isExecutable(path: string): boolean {
  return isAccessible(path, constants.X_OK)
}

function isAccessible(path: string, mode: number): boolean {
  try {
    accessSync(path, mode)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error) return false
    throw error
  }
}

function listIfThere(parent: string): string[] {
  return isThere(parent) ? readdirSync(parent) : []
}
