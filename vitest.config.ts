import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { ConformanceReporter } from './conformance/report/reporter.ts'
import { checkSelection, isAdapterSelected } from './conformance/selection.ts'

const root = import.meta.dirname
/** Packages that are no backend, and are tested whichever of those is asked for. */
const libraries = ['core', 'sql', 'cli']
const packages = readdirSync(join(root, 'packages'))
const adapters = packages.filter((name) => !libraries.includes(name))
checkSelection([...adapters, 'reference'])

export default defineConfig({
  test: {
    reporters: ['default', new ConformanceReporter()],
    retry: 0,
    // Most of the time is spent waiting for leases to end, not computing.
    maxWorkers: 4,
    testTimeout: 30_000,
    hookTimeout: 120_000,
    // A narrowed run leaves some files without a test; one without any fails all the same, by `npm test`.
    passWithNoTests: true,
    globalSetup: [join(root, 'conformance/services/global-setup.ts')],
    projects: [
      ...packages
        .filter((name) => libraries.includes(name) || isAdapterSelected(name))
        .map((name) => project(name, `packages/${name}`, 'test/**/*.test.ts')),
      // Those of interop need Java, and have a command of their own.
      project('conformance', 'conformance', '**/*.test.ts', ['interop/**']),
      project('examples', 'examples', '**/*.test.ts'),
    ],
  },
})

/** Tests run in the folder of their package, as those of a user would: adapters are looked up from there. */
function project(name: string, folder: string, include: string, leaveOut: readonly string[] = []) {
  const home = join(root, folder)
  const setupFiles = [join(root, 'conformance/setup.ts')]
  const env = { LOCKS_TEST_HOME: home }
  const exclude = [...configDefaults.exclude, ...leaveOut]
  return { extends: true as const, test: { name, root: home, include: [include], exclude, setupFiles, env } }
}
