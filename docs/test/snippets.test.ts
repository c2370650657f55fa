import { execFile, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startService } from '../../conformance/services/index.ts'
import type { Service, ServiceKind } from '../../conformance/services/index.ts'

/** Every TypeScript snippet of the documentation is compiled as it stands, and run unless a test runner must host it. */
const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Pages of the site that are made of others, if it was built here: their snippets stand elsewhere. */
const generated = ['docs/adapters', 'docs/api', 'docs/command-line.md', 'docs/decisions/index.md']

const pages = await pagesOf(['README.md', 'docs', 'packages'])
const snippets = (await Promise.all(pages.map(snippetsOf))).flat()
let folder: string

beforeAll(async () => {
  const cache = join(root, 'conformance/.cache')
  await mkdir(cache, { recursive: true })
  folder = await mkdtemp(join(cache, 'snippets-'))
  // Where those that need no server keep their locks.
  await mkdir(join(folder, 'locks'))
  for (const { id, code } of snippets) await writeFile(join(folder, `${id}.ts`), code)
  const config = {
    extends: join(root, 'tsconfig.base.json'),
    compilerOptions: { outDir: 'out', lib: ['esnext'], rewriteRelativeImportExtensions: true },
    include: ['*.ts'],
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
})

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('documentation', () => {
  test('has snippets to check', () => expect(snippets.length).toBeGreaterThan(5))

  test('every TypeScript snippet compiles', () => {
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' })
    expect(stdout).toBe('')
  })

  for (const { id, page, code } of snippets)
    if (!code.includes("from 'vitest'"))
      test(`${page}: snippet ${id} runs`, async () => {
        // What they leave among the temporary files goes with the folder.
        const env = { ...process.env, TMPDIR: folder, ...(await serversFor(code)) }
        await run(process.execPath, [join(folder, 'out', `${id}.js`)], { cwd: folder, timeout: 120_000, env })
      })
})

/** A snippet that reads one of these gets a real server there. */
async function serversFor(code: string): Promise<Record<string, string>> {
  const env: Record<string, string> = {}
  if (code.includes('REDIS_URL')) env['REDIS_URL'] = (await started('redis')).url
  if (code.includes('REDLOCK_URL')) {
    const hosts = (await started('redis-independent')).servers.map(({ host, port }) => `${host}:${port}`)
    env['REDLOCK_URL'] = `redlock://${hosts.join(',')}`
  }
  if (code.includes('POSTGRES_URL')) env['POSTGRES_URL'] = (await started('postgres')).url
  if (code.includes('MYSQL_URL')) env['MYSQL_URL'] = (await started('mariadb')).url
  return env
}

async function started(kind: ServiceKind): Promise<Service> {
  const service = await startService(kind)
  onTestFinished(() => service.close())
  return service
}

interface Snippet {
  readonly page: string
  readonly id: string
  readonly code: string
}

async function snippetsOf(page: string): Promise<Snippet[]> {
  const text = await readFile(join(root, page), 'utf8')
  return [...text.matchAll(/^```ts\n([^]*?)^```/gm)].map(([, code = ''], n) => ({
    page,
    id: `${page.replaceAll(/\W+/g, '-')}-${n + 1}`,
    code,
  }))
}

async function pagesOf(places: readonly string[]): Promise<string[]> {
  const found = await Promise.all(
    places.map(async (place) => {
      if (place.endsWith('.md')) return [place]
      const entries = await readdir(join(root, place), { withFileTypes: true })
      const wanted = entries.filter(
        (entry) =>
          !['node_modules', 'dist', '.vitepress'].includes(entry.name) &&
          (entry.isDirectory() || entry.name.endsWith('.md')),
      )
      return pagesOf(wanted.map(({ name }) => `${place}/${name}`).filter((page) => !generated.includes(page)))
    }),
  )
  return found.flat()
}
