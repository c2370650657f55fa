import { basename } from 'node:path'
import { isLockError } from '@locks/core'
import type { Holder, Lease } from '@locks/core'
import { backendOf, backendOptions, openBackend } from '../backend.ts'
import { startChild } from '../child.ts'
import type { Command } from '../command.ts'
import { UsageError } from '../errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { describeHolder } from '../holder.ts'
import { printable, toJson } from '../output.ts'
import type { Invocation } from '../invocation.ts'
import { supervise } from '../supervise.ts'

export const run: Command = {
  usage: 'NAME [options] -- COMMAND [args…]',
  hasRest: true,
  about: `Runs COMMAND while holding the lock NAME, and exits with its exit code. Its environment has LOCKS_NAME and
LOCKS_FENCE, the fencing token: pass it to the protected resource. SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded
to COMMAND. When the lock is lost, or about to be, COMMAND and its child processes get SIGTERM, then SIGKILL. The
lock is released when COMMAND ends, even if it left processes in the background. With --min-hold the lock then stays
taken until that long after it was granted, however short COMMAND was and even if it failed, so that hosts with
different clocks run it once: choose a little less than the period. After a crash of the host only --ttl counts. With
--json the messages of locks on stderr are lines of JSON.`,
  options: {
    wait: { takes: 'TIME', help: 'how long to wait for another holder; default 0: try once' },
    ttl: { takes: 'TIME', help: 'length of the lease, renewed while the command runs; default 30s' },
    'min-hold': { takes: 'TIME', help: 'keep the lock taken until this long after its grant; default 0' },
    grace: { takes: 'TIME', help: 'time from SIGTERM to SIGKILL; default 5s, at most a third of the lease' },
    label: { takes: 'TEXT', help: 'label of the holder, shown to others; default: the command' },
    'busy-code': { takes: 'N', help: 'exit code if another client holds the lock; default 75' },
    ...backendOptions,
  },
  examples: [
    'locks run nightly-report -- ./report.sh --all   # one at a time; the others exit with 75',
    'locks run nightly-report --busy-code 0 --min-hold 10m -- ./report.sh   # in every crontab: it runs once',
    `locks run deploy --wait 10m --ttl 1m -- sh -c './deploy.sh "$LOCKS_FENCE"'`,
  ],

  async run(args, invocation) {
    const [name = ''] = args.named('NAME')
    const [command, ...rest] = args.rest ?? []
    if (command === undefined) throw new UsageError('no command: locks run NAME -- COMMAND [args…]')
    const busyCode = args.integer('busy-code', [0, 255]) ?? exitCodes.busy
    const graceMs = args.durationMs('grace', ['0ms', '24h']) ?? 5_000
    const waitMs = args.durationMs('wait', ['0ms', '576h']) ?? 0
    const ttlMs = args.durationMs('ttl', ['10ms', '24h'])
    const minHoldMs = args.durationMs('min-hold', ['0ms', '576h']) ?? 0
    const tell = args.flag('json') ? tellJson(invocation) : tellPeople(invocation)

    const locks = await openBackend(invocation, await backendOf(args))
    if (locks.capabilities.scope === 'process')
      throw new UsageError(
        'this backend excludes only tasks of one process; run needs a store that processes share',
      )
    locks.on('contended', ({ holder }) => {
      if (waitMs === 0) return
      tell({ event: 'waiting', name, holder }, `waiting: ${printable(name)}${heldBy(holder)}`)
    })
    let lease: Lease
    try {
      const label = args.text('label') ?? basename(command)
      const { signal } = invocation
      const wanted = { waitMs, minHoldMs, label, signal, ...(ttlMs !== undefined && { ttlMs }) }
      lease = await locks.lock(name).acquire(wanted)
    } catch (error) {
      if (!isLockError(error, 'LOCK_TIMEOUT')) throw error
      const { holder } = error
      tell({ event: 'busy', name, holder }, `not run: ${printable(name)}${heldBy(holder)}`)
      return busyCode
    }
    invocation.signal.throwIfAborted()
    const fenced = locks.capabilities.fencing !== 'none'
    if (args.flag('json')) tell({ event: 'acquired', name, fence: fenced ? lease.fence : undefined }, '')
    const child = startChild(command, rest, {
      LOCKS_NAME: name,
      // Unset, so that the command does not inherit the fence of an outer `locks run`.
      LOCKS_FENCE: fenced ? lease.fence.toString() : undefined,
    })
    const { code, lost } = await supervise(child, lease, graceMs, invocation, (why) =>
      tell({ event: 'stopping', name, reason: why }, `${why}: stopping ${command}`),
    )
    const unconfirmed = await release(lease)
    if (unconfirmed !== undefined) tell({ event: 'not-released', name, reason: unconfirmed }, unconfirmed)
    if (!lost && lease.state !== 'lost') return code
    tell(
      { event: 'lost', name, commandCode: code },
      `${printable(name)} was lost; the command exited with ${code}`,
    )
    return exitCodes.lost
  },
}

function heldBy(holder: Holder | undefined): string {
  return holder === undefined ? ' is held' : ` is held by ${describeHolder(holder)}`
}

/** Returns what to report. A loss is reported elsewhere. */
async function release(lease: Lease): Promise<string | undefined> {
  try {
    await lease.release()
  } catch (error) {
    if (isLockError(error, 'LOCK_UNAVAILABLE'))
      return `not released; the lock ends after its ttl: ${error.message}`
    if (!isLockError(error, 'LOCK_LOST')) throw error
  }
  return undefined
}

type Tell = (event: Readonly<Record<string, unknown>>, text: string) => void

function tellJson(invocation: Invocation): Tell {
  return (event) => invocation.note(toJson(event))
}

function tellPeople(invocation: Invocation): Tell {
  return (_event, text) => invocation.note(`${invocation.paintError('yellow', 'locks:')} ${text}`)
}
