import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const root = join(import.meta.dirname, '..')

export default defineConfig({
  root,
  test: {
    include: ['behaviour/measure.fixture.ts'],
    setupFiles: [join(root, 'setup.ts')],
    env: { LOCKS_TEST_HOME: root },
    hookTimeout: 120_000,
    maxConcurrency: 1,
  },
})
