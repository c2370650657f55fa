import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { providePnpm } from '../../scripts/bootstrap.mjs'
import { pack, publicPackages } from '../../scripts/lib/packages.mjs'
import type { PublicPackage } from '../../scripts/lib/packages.mjs'
import { root } from '../../scripts/lib/run.mjs'

const run = promisify(execFile)

export interface Registry extends AsyncDisposable {
  readonly url: string
}

interface Tarball {
  readonly version: string
  readonly manifest: object
  readonly bytes: Buffer
}

/**
 * A package registry on loopback: our packages as they would be published, and all others as this
 * workspace has them installed, so that nothing comes from the network. Those named are made ready at once.
 */
export async function startRegistry(ready: readonly string[]): Promise<Registry> {
  const folder = await mkdtemp(join(tmpdir(), 'locks-registry-'))
  await providePnpm()
  const ours = new Map((await publicPackages()).map((each) => [each.name, each]))
  const found = new Map<string, Promise<readonly Tarball[]>>()
  const tarballsOf = (name: string): Promise<readonly Tarball[]> => {
    const own = ours.get(name)
    const known = found.get(name) ?? (own === undefined ? installed(name, folder) : published(own, folder))
    found.set(name, known)
    return known
  }

  await Promise.all(ready.map(tarballsOf))

  const server = createServer((request, response) => {
    const asked = /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.*)\.tgz)?$/.exec(decodeURIComponent(request.url ?? ''))
    const [, name = '', version] = asked ?? []
    const answer = async (): Promise<void> => {
      const tarballs = request.method === 'GET' ? await tarballsOf(name) : []
      if (tarballs.length === 0) response.writeHead(404).end('{}')
      else if (version !== undefined) response.end(tarballs.find((each) => each.version === version)?.bytes)
      else response.end(JSON.stringify(document(url, name, tarballs)))
    }
    answer().catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** What a registry says of a package. */
function document(url: string, name: string, tarballs: readonly Tarball[]): object {
  const versions = tarballs.map(({ version, manifest, bytes }) => {
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
    return [
      version,
      { ...manifest, dist: { tarball: `${url}/${name}/-/${version}.tgz`, integrity } },
    ] as const
  })
  const latest = tarballs.at(-1)?.version
  return { name, 'dist-tags': { latest }, versions: Object.fromEntries(versions) }
}

async function load(path: string): Promise<Tarball> {
  const { stdout } = await run('tar', ['-xOzf', path, 'package/package.json'])
  const manifest: unknown = JSON.parse(stdout)
  if (typeof manifest !== 'object' || manifest === null || !('version' in manifest))
    throw new Error(`${path} is no package`)
  return { version: String(manifest.version), manifest, bytes: await readFile(path) }
}

async function published(own: PublicPackage, folder: string): Promise<readonly Tarball[]> {
  return [await load((await pack(own, folder)).tarball)]
}

/** Tarballs of every version of a package that pnpm keeps for this workspace. */
async function installed(name: string, folder: string): Promise<readonly Tarball[]> {
  const store = join(root, 'node_modules', '.pnpm')
  const entries = (await readdir(store)).filter((each) => each.startsWith(`${name.replace('/', '+')}@`))
  const tarballs = await Promise.all(
    entries.map(async (entry) => {
      const stage = await mkdtemp(join(folder, 'stage-'))
      await symlink(await realpath(join(store, entry, 'node_modules', name)), join(stage, 'package'))
      await run('tar', ['-chzf', 'package.tgz', '--exclude', 'node_modules', 'package'], { cwd: stage })
      return load(join(stage, 'package.tgz'))
    }),
  )
  return [...new Map(tarballs.map((each) => [each.version, each])).values()]
}
