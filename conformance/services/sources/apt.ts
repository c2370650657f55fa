import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { quote } from '../programs/program.ts'

/** Why nothing can be installed here; undefined when it can. */
export function aptRefusal(): string | undefined {
  if (process.env['LOCKS_TEST_APT'] === '0') return 'switched off by LOCKS_TEST_APT=0'
  if (!existsSync('/etc/debian_version') || !existsSync('/usr/bin/apt-get')) return 'this is not a Debian'
  if (process.getuid?.() !== 0) return 'only root can install packages'
  return undefined
}

/** Installs Debian packages without letting any of them start a server. Safe to call from several processes. */
export async function aptInstall(packages: readonly string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'locks-apt-'))
  const logFile = join(folder, 'apt.log')
  const started = performance.now()
  const say = (what: string): void => {
    const seconds = Math.round((performance.now() - started) / 1000)
    process.stderr.write(`locks: ${what} ${packages.join(' ')} (${seconds} s)\n`)
  }
  say('installing with apt-get, which may take minutes:')
  const progress = setInterval(() => say('still installing'), 15_000)
  try {
    const exitCode = await runToEnd(logFile, installScript(packages))
    if (exitCode === 0) return say('installed')
    const log = await readFile(logFile, 'utf8')
    throw new Error(
      `apt-get could not install ${packages.join(' ')}:\n${log.trim().split('\n').slice(-15).join('\n')}`,
    )
  } finally {
    clearInterval(progress)
    await rm(folder, { recursive: true, force: true })
  }
}

async function runToEnd(logFile: string, script: string): Promise<number> {
  const log = await open(logFile, 'a')
  try {
    return await new Promise((resolve, reject) => {
      // Detached, and its output in a file: a test run that dies must not leave dpkg half-way.
      // The lock makes a second worker wait here, and find everything installed.
      const child = spawn('flock', ['/var/lib/apt', '/bin/sh', '-c', script], {
        detached: true,
        stdio: ['ignore', log.fd, log.fd],
        env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
      })
      child.once('error', reject).once('exit', (code) => resolve(code ?? 1))
    })
  } finally {
    await log.close()
  }
}

const noDefaultCluster = '/etc/postgresql-common/createcluster.d/locks-tests.conf'

/**
 * policy-rc.d forbids that packages start services; one that is already there has its reasons and stays.
 * The second file keeps PostgreSQL's package from making a database of its own.
 */
function installScript(packages: readonly string[]): string {
  const names = packages.map(quote).join(' ')
  return `set -eu
missing=
for name in ${names}; do
  dpkg-query -W -f '\${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing=yes
done
if [ -z "$missing" ]; then exit 0; fi
policy=/usr/sbin/policy-rc.d
marker='# made by the tests of @locks while they install servers'
tidy() {
  if grep -qs "^$marker" "$policy"; then rm -f "$policy"; fi
  rm -f ${noDefaultCluster}
  rmdir -p "$(dirname ${noDefaultCluster})" 2>/dev/null || true
}
trap tidy EXIT
trap 'exit 1' INT TERM HUP
if [ ! -e "$policy" ]; then printf '#!/bin/sh\\n%s\\nexit 101\\n' "$marker" > "$policy"; chmod 755 "$policy"; fi
mkdir -p "$(dirname ${noDefaultCluster})"
echo 'create_main_cluster = false' > ${noDefaultCluster}
apt-get -q -o DPkg::Lock::Timeout=300 update || echo 'going on with the package lists that are there'
apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold install ${names}
`
}
