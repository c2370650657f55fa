import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { ConformanceReporter } from '../report/reporter.ts'

const home = join(import.meta.dirname, '..')

export default defineConfig({
  test: {
    name: 'interop',
    root: home,
    include: ['interop/**/*.test.ts'],
    reporters: ['default', new ConformanceReporter()],
    retry: 0,
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    globalSetup: [join(import.meta.dirname, 'setup.ts')],
    setupFiles: [join(home, 'setup.ts')],
    env: { LOCKS_TEST_HOME: home },
  },
})
