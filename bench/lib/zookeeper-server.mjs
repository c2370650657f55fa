import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { freePort } from './free-port.mjs'

/** A private server for one run: ZooKeeper of ZOOKEEPER_HOME, or Debian's (libzookeeper-java), with `java` on PATH. */
export async function startZooKeeper() {
  const port = await freePort()
  const { ZOOKEEPER_HOME: home } = process.env
  const debian = ['zookeeper', 'slf4j-simple'].map((jar) => `/usr/share/java/${jar}.jar`)
  const jars = home === undefined ? debian.join(':') : `${home}/conf:${home}/lib/*`
  const folder = mkdtempSync(join(tmpdir(), 'locks-bench-'))
  const settings = [
    'dataDir=data',
    `clientPort=${port}`,
    'clientPortAddress=127.0.0.1',
    'admin.enableServer=false',
    '4lw.commands.whitelist=srvr',
  ]
  writeFileSync(join(folder, 'zoo.cfg'), settings.join('\n'))
  const quiet = '-Dorg.slf4j.simpleLogger.defaultLogLevel=error'
  const main = 'org.apache.zookeeper.server.quorum.QuorumPeerMain'
  const child = spawn('java', ['-cp', jars, quiet, main, 'zoo.cfg'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  // Even if a measurement fails.
  process.once('exit', () => {
    child.kill()
    rmSync(folder, { recursive: true, force: true })
  })
  child.once('exit', () => {
    throw new Error('the server ended; is there ZooKeeper in ZOOKEEPER_HOME, or libzookeeper-java of Debian?')
  })
  const stop = () => {
    child.removeAllListeners('exit')
    child.kill()
  }
  while (!(await serves(port))) await pass(50)
  return { url: `zookeeper://127.0.0.1:${port}`, stop }
}

/** Whether the server answers: a client that connects too early may hang. @param {number} port */
function serves(port) {
  return new Promise((resolve) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => socket.write('srvr'))
    socket.on('data', (text) => (answer += String(text)))
    socket.on('error', () => undefined).once('close', () => resolve(answer.includes('Mode:')))
  })
}
