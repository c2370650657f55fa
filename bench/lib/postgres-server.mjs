// A private PostgreSQL server for one run, from the installed software, with default settings.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { freePort } from './free-port.mjs'

const READY = 'ready to accept connections'

export async function startPostgres() {
  const programs = await findPrograms()
  const directory = await mkdtemp(join(tmpdir(), 'locks-bench-'))
  const data = join(directory, 'data')
  const user = process.getuid?.() === 0 ? nobody() : undefined
  if (user !== undefined) await chown(directory, user.uid, user.gid)
  const options = { cwd: directory, ...user }
  execFileSync(join(programs, 'initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '--locale=C'], {
    ...options,
    stdio: 'ignore',
  })
  const port = await freePort()
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, 'unix_socket_directories=']
  const args = ['-D', data, ...settings.flatMap((setting) => ['-c', setting])]
  const server = spawn(join(programs, 'postgres'), args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = new Promise((resolve) => server.once('exit', resolve))
  let log = ''
  for await (const text of server.stderr) {
    log += String(text)
    if (log.includes(READY)) break
  }
  if (!log.includes(READY)) throw new Error(`PostgreSQL did not start:\n${log}`)
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async stop() {
      server.kill('SIGINT')
      await ended
      await rm(directory, { recursive: true })
    },
  }
}

/** The directory of `postgres` and `initdb`: on PATH, or Debian's. */
async function findPrograms() {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? await readdir(debian) : []
  const newestFirst = versions.toSorted((a, b) => Number(b) - Number(a))
  const places = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    ...newestFirst.map((version) => join(debian, version, 'bin')),
  ]
  const found = places.find((place) =>
    ['postgres', 'initdb'].every((program) => existsSync(join(place, program))),
  )
  if (found === undefined)
    throw new Error('PostgreSQL is not installed; pass the URL of a server: postgres://…')
  return found
}

/** PostgreSQL refuses to run as root. */
function nobody() {
  /** @param {string} option */
  const id = (option) => Number(execFileSync('id', [option, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}
