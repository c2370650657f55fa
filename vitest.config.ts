import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer } from 'vitest/node'
import type { TestSpecification } from 'vitest/node'
import { ConformanceReporter } from './conformance/report/reporter.ts'
import { checkSelection, isAdapterSelected, scope } from './conformance/selection.ts'

const root = import.meta.dirname
/** Packages that are no backend, and are tested whichever of those is asked for. */
const libraries = ['core', 'sql', 'cli']
const packages = readdirSync(join(root, 'packages'))
const adapters = packages.filter((name) => !libraries.includes(name))
checkSelection([...adapters, 'reference'])

interface Group {
  readonly maxWorkers: number
  readonly sequence: { readonly groupOrder: number }
}

/** A run of `npm test -- --quick`: what needs no server, and one Redis. */
const quick: Readonly<Record<string, readonly string[]>> = {
  core: ['test/**/*.test.ts'],
  sql: ['test/**/*.test.ts'],
  memory: ['test/**/*.test.ts'],
  cas: ['test/conformance-file.test.ts', 'test/{algorithm,contract,options,file}.test.ts'],
  redis: ['test/conformance.test.ts', 'test/{names,commands}.test.ts'],
}

/** Browsers, installs, builds and many processes keep every core busy, and would stall tests that measure time meanwhile. */
const first: Group = { maxWorkers: 5, sequence: { groupOrder: 0 } }
/** Here most of the time is spent waiting for leases to end, not computing. */
const second: Group = { maxWorkers: 7, sequence: { groupOrder: 1 } }
/** Mutants wait most of the time, often for something that a healthy library would not let them wait for. */
const patient = { maxConcurrency: 8 }
const heavy = ['torture/**/*.test.ts']
/**
 * For `npm test -- --all`: these keep both cores busy for long, or need a browser or another runtime, or try what most
 * tests rely on.
 */
const long = {
  conformance: [
    'torture/mutants.test.ts',
    'runtimes/**',
    'services/{guardian,mariadb,postgres,zookeeper}.test.ts',
  ],
  docs: ['test/site/**'],
  examples: ['newcomer/{jest,frameworks}.test.ts', 'in-transaction/orms.test.ts'],
}
/** Tests of `packages/postgres` about connections, which `npm test -- --all` repeats with another client library. */
const aboutConnections = [
  'busy-pool',
  'connection-loss',
  'connections',
  'crash',
  'handoff',
  'isolation',
  'listening',
  'locked-rows',
  'operators',
  'pgbouncer',
  'pool',
  'promoted',
  'release',
  'replies',
  'session-replies',
  'standby',
  'waiters',
]
const leftOut = (folder: keyof typeof long): readonly string[] => (scope() === 'all' ? [] : long[folder])

/** Each takes long for its project: half a minute, most of them. */
const isLong = ({ moduleId }: TestSpecification): boolean =>
  /\/(conformance|mutants|torture|run|demo|commands|contract|file-crash|simulat|time|clocks|planned-failover|refused-reconnects|connecting|given-client|doubted-primary)[\w-]*\.test\.ts$/.test(
    moduleId,
  )

const order = [
  'conformance',
  'memory',
  'core',
  'postgres',
  'postgres-js',
  'mysql',
  'zookeeper',
  'cas',
  'redlock',
  'redis',
  'sql',
]

/**
 * One project after the other, since a worker serves only files of one project that follow each other. In each, the long
 * files come first; the last project has short ones only, so that no worker is idle for long in the end.
 */
class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = (file: TestSpecification): number => order.indexOf(file.project.name)
    return (await super.sort(files)).toSorted(
      (a, b) => rank(a) - rank(b) || Number(isLong(b)) - Number(isLong(a)),
    )
  }
}

const reporter = new ConformanceReporter()

export default defineConfig({
  test: {
    reporters: ['default', reporter],
    // Of a void run, which `conformance/void-runs.ts` tells from a failure. No failure is tried again.
    retry: { count: 2, condition: /^void: / },
    // Cases of the suite that run beside each other in one process.
    maxConcurrency: 4,
    // For what hangs. Promises about time are judged by the tests.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    onUnhandledError: (error) => reporter.isFailure(error),
    // A narrowed run leaves some files without a test; one without any fails all the same, by `npm test`.
    passWithNoTests: true,
    // What is built is loaded by Node as it is: to transform it again in every worker takes longer than most tests.
    server: { deps: { external: [/\/packages\/\w+\/dist\//] } },
    globalSetup: [join(root, 'conformance/services/global-setup.ts')],
    sequence: { sequencer: ByProject },
    // To start a worker and to load what most tests need takes longer than most tests.
    isolate: false,
    projects:
      scope() === 'quick'
        ? quickProjects()
        : [
            project(first, 'torture', 'conformance', heavy, leftOut('conformance')),
            project(first, 'cli', 'packages/cli', ['test/**/*.test.ts']),
            project(first, 'docs', 'docs', ['test/**/*.test.ts'], leftOut('docs')),
            project(first, 'scripts', 'scripts', ['test/**/*.test.ts']),
            project(first, 'examples', 'examples', ['**/*.test.ts'], leftOut('examples')),
            ...packages
              .filter((name) => name !== 'cli' && (libraries.includes(name) || isAdapterSelected(name)))
              .map((name) => project(second, name, `packages/${name}`, ['test/**/*.test.ts'])),
            ...(scope() === 'all' && isAdapterSelected('postgres') ? [withPostgresJs()] : []),
            ...(scope() === 'all' && isAdapterSelected('redis')
              ? ['ioredis-5', 'ioredis-5.3'].map(withIoredis)
              : []),
            // Those of interop need Java, and have a command of their own.
            project(
              second,
              'conformance',
              'conformance',
              ['**/*.test.ts'],
              ['interop/**', ...heavy, ...leftOut('conformance')],
              patient,
            ),
          ],
  },
})

function quickProjects() {
  return [
    ...Object.entries(quick).map(([name, include]) =>
      project(second, name, `packages/${name}`, [...include]),
    ),
    project(second, 'conformance', 'conformance', ['mutants/**/*.test.ts', 'report/**/*.test.ts']),
  ]
}

function withPostgresJs() {
  const files = `test/{${aboutConnections.join(',')}}.test.ts`
  const env = { LOCKS_TEST_LIBRARY: 'postgres' }
  return project(second, 'postgres-js', 'packages/postgres', [files], [], {}, env)
}

/** All tests of `packages/redis` except those of names, scripts and foreign keys, with an earlier version of ioredis. */
function withIoredis(version: string) {
  const hook = ['--import', join(root, 'conformance/clients/hook.mjs')]
  const once = ['driver-contract', 'foreign-keys', 'forged-attempts', 'mutants', 'names', 'reading-guide']
  const leaveOut = once.map((name) => `test/${name}.test.ts`)
  const env = { LOCKS_TEST_LIBRARY: version, NODE_OPTIONS: hook.join(' ') }
  const alias = { ioredis: version }
  return project(
    second,
    version,
    'packages/redis',
    ['test/**/*.test.ts'],
    leaveOut,
    { alias, execArgv: hook },
    env,
  )
}

/** Tests run in the folder of their package, as those of a user would: adapters are looked up from there. */
function project(
  group: Group,
  name: string,
  folder: string,
  include: string[],
  leaveOut: readonly string[] = [],
  more: object = {},
  vars: Readonly<Record<string, string>> = {},
) {
  const home = join(root, folder)
  const setupFiles = [join(root, 'conformance/setup.ts')]
  const env = { LOCKS_TEST_HOME: home, ...vars }
  const exclude = [...configDefaults.exclude, ...leaveOut]
  return {
    extends: true as const,
    test: { name, root: home, include, exclude, setupFiles, env, ...group, ...more },
  }
}
