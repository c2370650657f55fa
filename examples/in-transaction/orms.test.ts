import { execFile } from 'node:child_process'
import { cp, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { obtainPackages } from '../../conformance/runtimes/obtain.ts'
import { isSelected } from '../../conformance/selection.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { refusedBy, sellWith } from './sales.ts'

const run = promisify(execFile)
const here = import.meta.dirname
const folder = join(here, '../../.cache/in-transaction/1')
const versions = [
  ...['drizzle-orm@0.45', 'kysely@0.28', 'knex@3', 'typeorm@0.3', 'reflect-metadata@0.2', 'postgres@3'],
  ...[
    'prisma@6',
    '@prisma/client@6',
    '@prisma/adapter-pg@6',
    '@prisma/adapter-mariadb@6',
    'pg@8',
    'mysql2@3',
  ],
]
const libraries = [
  ...['pg.mjs', 'mysql2.mjs'],
  ...['postgres-js', 'drizzle', 'kysely', 'knex', 'prisma', 'typeorm'].map((name) => `postgres/${name}.mjs`),
  ...['drizzle', 'kysely', 'knex', 'prisma', 'typeorm'].map((name) => `mysql/${name}.mjs`),
]
const timeout = scaled(300_000)
const backendOf = (library: string): string => (library.includes('mysql') ? 'mysql-row' : 'postgres-row')

/** The client of Prisma works without an engine, and so does its generator once it has found a file of each. */
async function generate(at: string): Promise<void> {
  await writeFile(join(at, 'engine'), '')
  for (const server of ['postgres', 'mysql']) {
    await cp(join(here, server, 'schema.prisma'), join(at, server, 'schema.prisma'))
    const env = {
      ...process.env,
      DATABASE_URL: 'none:',
      PRISMA_QUERY_ENGINE_LIBRARY: join(at, 'engine'),
      PRISMA_SCHEMA_ENGINE_BINARY: join(at, 'engine'),
    }
    const prisma = [
      join(at, 'node_modules/prisma/build/index.js'),
      'generate',
      '--schema',
      `${server}/schema.prisma`,
    ]
    await run(process.execPath, prisma, { cwd: at, env })
  }
  await symlink(join(here, 'node_modules/@locks'), join(at, 'node_modules/@locks'))
}

beforeAll(async () => {
  if (!libraries.some((library) => isSelected(backendOf(library)))) return
  await obtainPackages(versions, folder, generate)
  for (const part of ['pg.mjs', 'mysql2.mjs', 'postgres', 'mysql', 'run.mjs'])
    await cp(join(here, part), join(folder, part), { recursive: true })
}, timeout)

test.for(libraries)(
  '1,000 contended transactions of %s count exactly',
  { timeout },
  async (library, { skip }) => {
    if (!isSelected(backendOf(library))) skip(`LOCKS_ONLY leaves out ${backendOf(library)}`)
    await sellWith(folder, library, 1_000)
  },
)

test.for(libraries)(
  '%s: without the tables the error says what to do',
  { timeout },
  async (library, { skip }) => {
    if (!isSelected(backendOf(library))) skip(`LOCKS_ONLY leaves out ${backendOf(library)}`)
    const output = await refusedBy(folder, library)
    expect(output).toContain('LOCK_INVALID_ARGUMENT')
    expect(output).toContain('npx -p @locks/cli locks migrate')
  },
)
