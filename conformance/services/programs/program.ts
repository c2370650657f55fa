import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Address, Settings } from '../service.ts'

/** What one kind of server software needs, wherever it comes from. */
export interface Program {
  readonly name: 'redis' | 'postgres' | 'mariadb' | 'zookeeper'
  /** Debian packages: the servers themselves, without the packages that set up a system service. */
  readonly packages: readonly string[]
  /** Told to a person whose machine has none. */
  readonly advice: string
  /** Overridden by LOCKS_TEST_<NAME>_IMAGE. */
  readonly image: string
  readonly refusesRoot: boolean
  /** The signal that asks for an orderly end even while clients are connected. */
  readonly stopSignal: NodeJS.Signals
  /**
   * Finds the software on this machine. The answer is shell text after which its commands can be called
   * by name; undefined when something is missing.
   */
  locate(): string | undefined
  /** The same shell text, for use inside an image. */
  readonly locateInImage: string
}

/** One server of a topology, before anything runs. */
export interface ServerPlan extends Pick<Address, 'port'> {
  readonly name: string
  readonly url: string
  launch(listen: string): Launch
  /** Resolves when the server answers its own protocol. */
  ready(address: Address): Promise<unknown>
}

/** How a server is brought up in an empty directory of its own. */
export interface Launch {
  /** Written once: some servers rewrite their settings, and that must survive a restart. */
  readonly files?: Readonly<Record<string, string>>
  /** Shell commands that run before the first start, and again after a wipe; `data` is empty then. */
  readonly prepare?: string
  /** Shell commands after `prepare` that fill `data` alike for every server: what they make may be copied. */
  readonly initialise?: string
  /** The shell command that becomes the server. */
  readonly run: string
}

/**
 * One POSIX shell script does for a process and for a container: both have a shell and a directory.
 * A half-prepared `data` has no marker and is made anew.
 */
export function launchScript(
  locate: string,
  { files = {}, prepare = ':', initialise = ':', run }: Launch,
  templates?: string,
): string {
  return [
    'set -eu',
    'export LC_ALL=C',
    locate,
    'if [ -e wipe ]; then rm -rf data wipe; fi',
    ...Object.entries(files).map(
      ([name, text]) => `[ -e ${quote(name)} ] || printf '%s\\n' ${quote(text)} > ${quote(name)}`,
    ),
    'if [ ! -e data/prepared ]; then',
    'rm -rf data; mkdir data',
    prepare,
    templates === undefined || initialise === ':' ? initialise : fromTemplate(initialise, templates),
    ': > data/prepared',
    'fi',
    `exec ${run}`,
  ].join('\n')
}

/** The first server of a run makes `data`, which takes a second of CPU time, and leaves a copy for the others. */
function fromTemplate(initialise: string, templates: string): string {
  const template = quote(join(templates, createHash('sha256').update(initialise).digest('hex').slice(0, 16)))
  return [
    `if [ -e ${template}/complete ]; then cp -a ${template}/data/. data; else`,
    initialise,
    // Of several that come first, only one creates the directory.
    `if mkdir ${template} 2> /dev/null; then cp -a data ${template}/data; : > ${template}/complete; fi`,
    'fi',
  ].join('\n')
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}

/** `--key=value` for each setting. */
export function flags(settings: Settings): string {
  return Object.entries(settings)
    .map(([key, value]) => quote(`--${key}=${value}`))
    .join(' ')
}
