import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: join(import.meta.dirname, '..', '..'),
  test: { include: ['services/test-support/*.fixture.ts'], pool: 'forks', reporters: ['dot'] },
})
