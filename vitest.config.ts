import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { ConformanceReporter } from './conformance/report/reporter.ts'

const root = import.meta.dirname
const packages = readdirSync(join(root, 'packages'))

export default defineConfig({
  test: {
    reporters: ['default', new ConformanceReporter()],
    retry: 0,
    testTimeout: 30_000,
    hookTimeout: 120_000,
    projects: [
      ...packages.map((name) => project(name, `packages/${name}`, 'test/**/*.test.ts')),
      project('conformance', 'conformance', '**/*.test.ts', [
        join(root, 'conformance/services/global-setup.ts'),
      ]),
      project('examples', 'examples', '**/*.test.ts'),
    ],
  },
})

function project(name: string, folder: string, include: string, globalSetup: string[] = []) {
  return { extends: true as const, test: { name, root: join(root, folder), include: [include], globalSetup } }
}
