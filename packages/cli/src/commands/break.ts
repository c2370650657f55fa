import { createInterface } from 'node:readline/promises'
import type { Holder, Lock, LockState } from '@locks/core'
import type { Arguments } from '../arguments.ts'
import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { UsageError } from '../errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { describeHolder } from '../holder.ts'
import { printable } from '../output.ts'
import type { Session } from '../session.ts'
import { quoted } from '../url.ts'

export const breakHold: Command = {
  usage: 'NAME [options]',
  about: `Ends the hold of the lock NAME, whoever has it: shows the holder, asks, and breaks exactly that hold, not a later
one. The next in line gets the lock under a higher fence; the broken holder learns of it with its next renewal, and
may go on until then. Make sure that it is dead, or that what the lock protects checks the fence.`,
  options: {
    yes: { short: 'y', help: 'do not ask' },
    fence: { takes: 'N', help: 'only the hold under this fence, as inspect shows it' },
    ...backendOptions,
  },
  examples: ['locks break nightly-report', 'locks break nightly-report --fence 42 --yes'],

  async run(args, session) {
    const [name = ''] = args.named('NAME')
    const wanted = fenceOf(args)
    const locks = await openBackend(session, await backendOf(args))
    const lock = locks.lock(name)
    const state = await lock.inspect()
    const { holder } = state
    const say = (broken: boolean, text: string): void => {
      if (args.flag('json')) session.printJson({ name, broken, ...(holder && { holder }) })
      else session.print(text)
    }
    if (!state.held || holder === undefined || (wanted !== undefined && holder.fence !== wanted)) {
      say(false, `nothing to break: ${printable(name)} ${state.held ? 'is held by another' : 'is free'}`)
      return state.held ? exitCodes.failure : exitCodes.ok
    }
    if (!args.flag('yes') && !(await isConfirmed(state, session))) {
      say(false, 'left alone')
      return exitCodes.failure
    }
    const same = await isSame(lock, holder)
    session.signal.throwIfAborted()
    const broken = same ? await lock.break(byFence(holder)) : null
    if (broken === null)
      say(false, `that hold was over already; look again: locks inspect ${printable(name)}`)
    else say(true, `broken: ${printable(name)} was held by ${describeHolder(broken)}`)
    return broken === null ? exitCodes.failure : exitCodes.ok
  },
}

function fenceOf(args: Arguments): bigint | undefined {
  const text = args.text('fence')
  if (text === undefined) return undefined
  if (!/^\d+$/.test(text)) throw new UsageError(`--fence must be a whole number, not ${quoted(text)}`)
  return BigInt(text)
}

function byFence({ fence }: Holder): { readonly fence?: bigint } {
  return fence === undefined ? {} : { fence }
}

/** By its fence the store can tell. Without one, look again: the question may have stood there for long. */
async function isSame(lock: Lock, { fence, owner }: Holder): Promise<boolean> {
  return fence !== undefined || (await lock.inspect()).holder?.owner === owner
}

async function isConfirmed({ name, holder }: LockState, session: Session): Promise<boolean> {
  if (!process.stdin.isTTY) throw new UsageError('there is no terminal to ask at: break needs --yes')
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  session.onEnd(async () => terminal.close())
  // The terminal is read byte by byte now, so Ctrl-C is no signal by itself.
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  if (holder !== undefined) session.note(`${printable(name)} is held by ${describeHolder(holder)}`)
  const answer = await terminal.question('Break this hold? [y/N] ', { signal: session.signal })
  return /^y(es)?$/i.test(answer.trim())
}
