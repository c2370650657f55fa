import { Command } from 'ioredis'
import type { Script } from './script.ts'

export type Argument = string | number

/** Keys of a script, and how they go over the wire: the same lock is asked for again and again. */
export interface Keys {
  readonly names: readonly string[]
  readonly wire: string
}

/** How replies are read. */
export const asTexts = { replyEncoding: 'utf8' } as const

export function keysOf(names: readonly string[]): Keys {
  return { names, wire: bulk(names.length) + names.map(bulk).join('') }
}

/** A call of a script that was written out beforehand, but for what changes every time. */
export class ScriptCall extends Command {
  readonly #wire: string

  constructor({ wire }: Script, keys: Keys, args: readonly Argument[]) {
    super('evalsha', [], asTexts)
    let text = `*${3 + keys.names.length + args.length}\r\n${wire}${keys.wire}`
    for (const arg of args) text += bulk(arg)
    this.#wire = text
  }

  override toWritable(): string {
    return this.#wire
  }
}

/** One argument, as the protocol has it. */
function bulk(value: Argument): string {
  return `$${typeof value === 'number' ? String(value).length : Buffer.byteLength(value)}\r\n${value}\r\n`
}
