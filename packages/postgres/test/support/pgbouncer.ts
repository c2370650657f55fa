import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { postgresQuery } from '../../../../conformance/services/index.ts'
import type { Server } from '../../../../conformance/services/index.ts'
import { guard } from '../../../../conformance/services/guardian/guardian.ts'
import { freePorts } from '../../../../conformance/services/ports.ts'
import { aptInstall, aptRefusal } from '../../../../conformance/services/sources/apt.ts'
import { userOf } from '../../../../conformance/services/sources/unprivileged-user.ts'
import { eventually } from '../../../../conformance/services/timing.ts'

const places = [
  '/usr/sbin/pgbouncer',
  '/usr/bin/pgbouncer',
  '/usr/local/bin/pgbouncer',
  '/opt/homebrew/bin/pgbouncer',
]

/** Why there is no PgBouncer to test with; undefined when there is one. Installs it if that is possible. */
export async function whyNoPgbouncer(): Promise<string | undefined> {
  if (find() !== undefined) return undefined
  const refusal = aptRefusal()
  if (refusal !== undefined) return `PgBouncer is not installed, and cannot be: ${refusal}`
  await aptInstall(['pgbouncer'])
  return find() === undefined ? 'pgbouncer was installed and still cannot be found' : undefined
}

function find(): string | undefined {
  return places.find((path) => existsSync(path))
}

/** Starts a PgBouncer before `server`. Returns its URL, and how to end it. */
export async function startPgbouncer(
  server: Server,
  poolMode: 'session' | 'transaction',
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const program = find()
  const [port] = await freePorts(1)
  if (program === undefined || port === undefined) throw new Error('no PgBouncer')
  const directory = await mkdtemp(join(tmpdir(), 'locks-pgbouncer-'))
  const forget = guard({ path: directory })
  const file = join(directory, 'pgbouncer.ini')
  await writeFile(join(directory, 'users.txt'), '"postgres" ""\n')
  await writeFile(
    file,
    `[databases]
postgres = host=${server.host} port=${server.port} dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${directory}/users.txt
pool_mode = ${poolMode}
logfile = ${directory}/log
`,
  )
  const user = userOf({ refusesRoot: true })
  if (user !== undefined) await chown(directory, user.uid, user.gid)
  const child = spawn(program, [file], { stdio: 'ignore', ...user })
  const release = child.pid === undefined ? undefined : guard({ pid: child.pid })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  await eventually('PgBouncer answers', () => postgresQuery({ host: '127.0.0.1', port }, 'SELECT 1'), {
    unless: async () =>
      child.exitCode === null ? undefined : new Error(await readFile(join(directory, 'log'), 'utf8')),
  })
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async close() {
      child.kill('SIGKILL')
      await exited
      release?.()
      await rm(directory, { recursive: true, force: true })
      forget()
    },
  }
}
