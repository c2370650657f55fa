import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { settings } from './settings.ts'

const root = join(import.meta.dirname, '..')

export default defineConfig({
  root,
  test: {
    include: ['torture/run.fixture.ts'],
    setupFiles: [join(root, 'setup.ts')],
    env: { LOCKS_TEST_HOME: root },
    hookTimeout: 120_000,
    maxConcurrency: settings().sideBySide,
  },
})
