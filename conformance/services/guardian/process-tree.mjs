import { execFileSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'

/** @typedef {{ pid: number, parent: number }} Entry */

/**
 * Stops a process and everything below it. The root goes first, since a stopped parent forks no more;
 * children found later were forked before their own parent stopped.
 *
 * @param {number} root
 * @returns {number[]} every process of the tree
 */
export function freezeTree(root) {
  const frozen = new Set([root])
  signalOne(root, 'SIGSTOP')
  for (;;) {
    const fresh = descendants(root).filter((pid) => !frozen.has(pid))
    if (fresh.length === 0) return [...frozen]
    for (const pid of fresh) {
      signalOne(pid, 'SIGSTOP')
      frozen.add(pid)
    }
  }
}

/**
 * Whether no thread of it runs any more. The signal reaches one of them, which has to run to stop the others.
 * Where the system does not tell, it is believed.
 *
 * @param {number} pid
 */
export function isStopped(pid) {
  if (process.platform !== 'linux') return true
  return threadsOf(pid).every((thread) => ['T', 't', 'Z', 'X', undefined].includes(statFields(thread)[0]))
}

/** @param {number} root */
export function thawTree(root) {
  for (const pid of [...descendants(root), root]) signalOne(pid, 'SIGCONT')
}

/**
 * Kills a process and everything below it at one instant: frozen first, so that none of them sees
 * another one die and tidies up.
 *
 * @param {number} root
 * @returns {number[]} what was killed
 */
export function killTree(root) {
  const pids = freezeTree(root)
  for (const pid of pids) signalOne(pid, 'SIGKILL')
  return pids
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // EPERM: it lives, under another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
  return process.platform !== 'linux' || !isZombie(pid)
}

/**
 * @param {number} pid
 * @param {NodeJS.Signals} signal
 */
export function signalOne(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/** @param {number} root */
function descendants(root) {
  const entries = process.platform === 'linux' ? procEntries() : psEntries()
  const found = [root]
  for (const pid of found) {
    for (const entry of entries) if (entry.parent === pid) found.push(entry.pid)
  }
  return found.slice(1)
}

/** A minimal Debian has no `ps`. @returns {Entry[]} */
function procEntries() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: Number(statFields(`/proc/${name}`)[1] ?? 0) }))
}

/** @returns {Entry[]} */
function psEntries() {
  return execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .map(([pid = 0, parent = 0]) => ({ pid, parent }))
}

/** @param {number} pid */
function isZombie(pid) {
  return ['Z', 'X', undefined].includes(statFields(`/proc/${pid}`)[0])
}

/** @param {number} pid */
function threadsOf(pid) {
  const folder = `/proc/${pid}/task`
  return unlessGone(() => readdirSync(folder).map((thread) => `${folder}/${thread}`))
}

/**
 * State, parent and so on: what follows the name, which may itself hold blanks and brackets.
 *
 * @param {string} folder of a process or a thread
 */
function statFields(folder) {
  return unlessGone(() => {
    const stat = readFileSync(`${folder}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  })
}

/**
 * @param {() => string[]} read
 * @returns {string[]}
 */
function unlessGone(read) {
  try {
    return read()
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return []
    throw error
  }
}
