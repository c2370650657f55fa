import { spawn } from 'node:child_process'
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freePorts, returnPorts } from '../../conformance/services/ports.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { providePnpm } from '../../scripts/bootstrap.mjs'
import { pack, publicPackages } from '../../scripts/lib/packages.mjs'
import { root, run } from '../../scripts/lib/run.mjs'

/** The servers of the page about frameworks, word for word, with the packed packages. */
const page = await readFile(join(root, 'docs/frameworks.md'), 'utf8')

function snippetOf(section: string): string {
  const body = page.split(/^## /m).find((part) => part.startsWith(`${section}\n`))
  const [, code] = /^```\w+\n([^]*?)^```$/m.exec(body ?? '') ?? []
  if (code === undefined) throw new Error(`the page has no section ${section} with a snippet`)
  return code
}

/** Around the module of the page, which has no route: as a program of Nest has one. */
const nest = `import 'reflect-metadata'
import type { Locks } from '@locks/core'
import { Controller, Inject, Module, Param, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { LOCKS, LocksModule } from './locks.module.js'

@Controller('orders')
class Orders {
  constructor(@Inject(LOCKS) private readonly locks: Locks) {}

  @Post(':id/payment')
  async pay(@Param('id') id: string): Promise<{ fence: string }> {
    const fence = await this.locks.with('order:' + id, (lease) => lease.fence)
    return { fence: String(fence) }
  }
}

@Module({ imports: [LocksModule], controllers: [Orders] })
class App {}

const app = await NestFactory.create(App)
app.enableShutdownHooks()
await app.listen(Number(process.env['PORT']))
`

/** Another process: holds the lock until its input ends. */
const holder = `import { openLocks } from '@locks/core'

const locks = await openLocks(process.env.LOCKS_URL)
await locks.with('order:42', async () => {
  console.log('held')
  for await (const _ of process.stdin);
})
await locks.close()
`

const answer: unknown = expect.stringMatching(/^\{"fence":"[1-9]\d*"\}$/)

const tsconfig = {
  compilerOptions: {
    module: 'nodenext',
    target: 'es2022',
    strict: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
    skipLibCheck: true,
    types: ['node'],
  },
}

let directory = ''

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'locks-frameworks-'))
  await providePnpm()
  const tarballs: string[] = []
  for (const each of await publicPackages())
    if (['@locks/core', '@locks/cas'].includes(each.name))
      tarballs.push((await pack(each, directory)).tarball)
  await writeFile(join(directory, 'package.json'), '{ "private": true, "type": "module" }')
  await writeFile(join(directory, 'express.mjs'), snippetOf('Express'))
  await writeFile(join(directory, 'fastify.mjs'), snippetOf('Fastify'))
  await writeFile(join(directory, 'locks.module.ts'), snippetOf('NestJS'))
  await writeFile(join(directory, 'nest.ts'), nest)
  await writeFile(join(directory, 'holder.mjs'), holder)
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(tsconfig))
  const frameworks =
    'express@5 fastify@5 @nestjs/common @nestjs/core @nestjs/platform-express reflect-metadata rxjs'
  for (const command of [
    `npm install --no-audit --no-fund ${tarballs.join(' ')} ${frameworks} typescript@5 @types/node@20`,
    'npx tsc',
  ]) {
    const { exitCode, output } = await run('sh', ['-ec', command], { cwd: directory })
    expect({ exitCode, output }).toMatchObject({ exitCode: 0 })
  }
  return () => rm(directory, { recursive: true, force: true })
}, scaled(300_000))

describe('a server as on the page about frameworks', () => {
  for (const [framework, program] of [
    ['Express', 'express.mjs'],
    ['Fastify', 'fastify.mjs'],
    ['NestJS', 'nest.js'],
  ] as const)
    test(
      `${framework}: serves, reports contention, and ends in order`,
      { timeout: scaled(60_000) },
      async () => {
        const [store, [port = 0]] = [join(directory, `locks-${program}`), await freePorts(1)]
        onTestFinished(() => returnPorts([port]))
        await mkdir(store)
        const env = { ...process.env, PORT: String(port), LOCKS_URL: `file:${store}` }
        const start = (file: string): ChildProcessWithoutNullStreams => {
          const started = spawn(process.execPath, [file], { cwd: directory, env })
          onTestFinished(() => void started.kill('SIGKILL'))
          return started
        }
        const server = start(program)
        const closed = once(server, 'close')
        let output = ''
        for (const stream of [server.stdout, server.stderr])
          stream.setEncoding('utf8').on('data', (text: string) => (output += text))
        const url = `http://127.0.0.1:${port}/`
        const answers = (): Promise<boolean> =>
          fetch(url).then(
            () => true,
            () => false,
          )
        while (!(await answers())) expect({ output, ended: server.exitCode }).toMatchObject({ ended: null })
        const pay = (): Promise<Response> => fetch(`${url}orders/42/payment`, { method: 'POST' })

        const paid = await pay()
        expect({ output, paid: await paid.text() }).toMatchObject({ paid: answer })

        const other = start('holder.mjs')
        await once(other.stdout, 'data')
        expect((await pay()).status).toBe(409)

        // A request that is being handled ends as ever; only then the client closes.
        const underWay = pay()
        underWay.catch(() => undefined)
        await fetch(url)
        server.kill('SIGTERM')
        other.stdin.end()
        const last = await underWay
        expect({ output, last: await last.text() }).toMatchObject({ last: answer })
        await closed
        const { exitCode, signalCode } = server
        expect({ output, ended: signalCode ?? exitCode }).toMatchObject({
          ended: framework === 'NestJS' ? 'SIGTERM' : 0,
        })
      },
    )
})
