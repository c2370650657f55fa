import { readFile, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isRecord } from '@locks/core/adapter'
import type { Subject } from '@locks/core/conformance'
import { UsageError } from '../errors.ts'
import { isUrl, showUrl } from '../url.ts'
import { wireOf } from './wire-of.ts'

/** A subject. Disposing it stops the servers that it started. */
export type OpenSubject = Subject & Partial<AsyncDisposable>

/**
 * What the suite tests: a URL, or a module that exports `fromConfig`, as every adapter does, or `subject`: a `Subject`
 * or a function that returns one and may start servers.
 */
export async function resolveSubject(
  target: string,
  options: Readonly<Record<string, unknown>>,
): Promise<OpenSubject> {
  if (isUrl(target)) {
    if (Object.keys(options).length > 0)
      throw new UsageError('--options needs a module; put options of a URL into the URL')
    return { name: showUrl(target), config: target, ...wireOf(target) }
  }
  const file = await locate(target)
  const module = await load(target, file)
  const { subject, fromConfig } = module
  if (subject !== undefined) return checked(target, await made(subject))
  if (typeof fromConfig !== 'function')
    throw new UsageError(`${target} is not an adapter: it must export subject or fromConfig`)
  const config: Subject['config'] = { ...options, adapter: file }
  return { name: target, config }
}

/** A path, where a directory counts as a package, or the name of a package. */
async function locate(target: string): Promise<string> {
  if (!target.startsWith('.') && !isAbsolute(target)) {
    try {
      return createRequire(resolve('package.json')).resolve(target)
    } catch {
      throw new UsageError(
        `cannot find ${target}: install it (npm install ${target}), or write ./${target} for a path`,
      )
    }
  }
  const path = resolve(target)
  const found = await stat(path).catch(() => undefined)
  if (found === undefined) throw new UsageError(`${target} does not exist`)
  return found.isDirectory() ? join(path, await entryOf(path)) : path
}

async function entryOf(directory: string): Promise<string> {
  let text: string
  try {
    text = await readFile(join(directory, 'package.json'), 'utf8')
  } catch {
    return 'index.js'
  }
  const manifest: unknown = JSON.parse(text)
  if (!isRecord(manifest)) return 'index.js'
  const { exports, main } = manifest
  return importTarget(exports) ?? (typeof main === 'string' ? main : 'index.js')
}

/** The file that `import` of the package resolves to. */
function importTarget(entry: unknown): string | undefined {
  if (typeof entry === 'string') return entry
  if (!isRecord(entry)) return undefined
  for (const condition of ['.', 'import', 'node', 'default', 'module-sync']) {
    const found = importTarget(entry[condition])
    if (found !== undefined) return found
  }
  return undefined
}

async function load(name: string, file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(file).href)
    return isRecord(module) ? module : {}
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown error'
    throw new UsageError(`cannot load ${name}: ${why}`, { cause: error })
  }
}

async function made(subject: unknown): Promise<unknown> {
  return isMaker(subject) ? subject() : subject
}

function isMaker(value: unknown): value is () => unknown {
  return typeof value === 'function'
}

function checked(name: string, value: unknown): OpenSubject {
  if (isSubject(value)) return value
  throw new UsageError(`subject of ${name} must have name and config; see Subject in @locks/core/conformance`)
}

function isSubject(value: unknown): value is OpenSubject {
  return isRecord(value) && typeof value['name'] === 'string' && value['config'] !== undefined
}
