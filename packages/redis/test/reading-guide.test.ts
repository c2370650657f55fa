import { readFile } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import { afterAll, expect, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { at, connect, startProcess, uniqueName, until } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

test('CONTRIBUTING.md lists the files that one contended `with` runs through, and no others', async () => {
  const [locks, other] = [connect(at(server)), await startProcess(at(server))]
  const lock = uniqueName()
  // Connects: that is not part of the path.
  await locks.with(uniqueName(), () => undefined)
  const { lease } = await other.call('acquire', { lock })
  const files = await filesRunBy(async () => {
    const done = locks.with(lock, () => undefined)
    await until(async () => Number(await redisCommand(server, 'ZCARD', `locks_queue:{${lock}}`)) === 1)
    await other.call('release', { lease })
    await done
  })
  const guide = await readFile(new URL('../../../CONTRIBUTING.md', import.meta.url), 'utf8')
  const [, listed = ''] = /<!-- path -->(.*)<!-- \/path -->/s.exec(guide) ?? []
  const paths = [...listed.matchAll(/`(packages\/.+?\.ts)`/g)].map(([, path = '']) => path)
  expect(paths.toSorted()).toEqual(files)
})

/** The sources of core and redis of which a function is called during `run`. */
async function filesRunBy(run: () => Promise<void>): Promise<string[]> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await session.post('Profiler.takePreciseCoverage')
  await run()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  const ran = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
  return ran.flatMap(({ url }) => sourceOf(url) ?? []).toSorted()
}

function sourceOf(url: string): string | undefined {
  const [, name, file] = /packages\/(core|redis)\/dist\/(?!conformance)(.+)\.js$/.exec(url) ?? []
  return name === undefined ? undefined : `packages/${name}/src/${file}.ts`
}
