import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const root = join(import.meta.dirname, '..')

export default defineConfig({
  root,
  test: {
    include: ['leftovers/measure.fixture.ts'],
    setupFiles: [join(root, 'setup.ts')],
    env: { LOCKS_TEST_HOME: root },
    testTimeout: 86_400_000,
    hookTimeout: 120_000,
  },
})
