import { createInterface } from 'node:readline/promises'
import type { Holder, Lock, LockState } from '@locks/core'
import type { Arguments } from '../arguments.ts'
import { backendOf, backendOptions, openBackend } from '../backend.ts'
import type { Command } from '../command.ts'
import { UsageError } from '../errors.ts'
import { exitCodes } from '../exit-codes.ts'
import { describeHolder } from '../holder.ts'
import { printable } from '../output.ts'
import type { Invocation } from '../invocation.ts'
import { quoted } from '../url.ts'

export const breakHold: Command = {
  usage: 'NAME [options]',
  about: `Ends another client's hold of the lock NAME: shows the holder, asks for confirmation, and breaks that hold,
not a later one. The next waiter gets the lock under a higher fence. The broken holder learns of it at its next
renewal, and may continue until then: make sure that it is dead, or that the protected resource checks the fence.`,
  options: {
    yes: { short: 'y', help: 'do not ask for confirmation' },
    fence: { takes: 'N', help: 'break only the hold with this fence, as inspect shows it' },
    ...backendOptions,
  },
  examples: ['locks break nightly-report', 'locks break nightly-report --fence 42 --yes'],

  async run(args, invocation) {
    const [name = ''] = args.named('NAME')
    const wanted = fenceOf(args)
    const locks = await openBackend(invocation, await backendOf(args))
    const lock = locks.lock(name)
    const state = await lock.inspect()
    const { holder } = state
    const say = (broken: boolean, text: string): void => {
      if (args.flag('json')) invocation.printJson({ name, broken, ...(holder && { holder }) })
      else invocation.print(text)
    }
    if (!state.held || holder === undefined || (wanted !== undefined && holder.fence !== wanted)) {
      say(false, `nothing to break: ${printable(name)} ${state.held ? 'has another holder' : 'is free'}`)
      return state.held ? exitCodes.failure : exitCodes.ok
    }
    if (!args.flag('yes') && !(await isConfirmed(state, invocation))) {
      say(false, 'not broken')
      return exitCodes.failure
    }
    const same = await isSame(lock, holder)
    invocation.signal.throwIfAborted()
    const broken = same ? await lock.break(byFence(holder)) : null
    if (broken === null)
      say(false, `that hold has already ended; check again: locks inspect ${printable(name)}`)
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

/** A fence identifies the hold. Without one, inspect again: the user may have taken long to confirm. */
async function isSame(lock: Lock, { fence, owner }: Holder): Promise<boolean> {
  return fence !== undefined || (await lock.inspect()).holder?.owner === owner
}

async function isConfirmed({ name, holder }: LockState, invocation: Invocation): Promise<boolean> {
  if (!process.stdin.isTTY) throw new UsageError('cannot ask for confirmation without a terminal: pass --yes')
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  invocation.onEnd(async () => terminal.close())
  // The terminal is in raw mode now, so Ctrl-C does not send a signal.
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  if (holder !== undefined) invocation.note(`${printable(name)} is held by ${describeHolder(holder)}`)
  const answer = await terminal.question('Break this hold? [y/N] ', { signal: invocation.signal })
  return /^y(es)?$/i.test(answer.trim())
}
