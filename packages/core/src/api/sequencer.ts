import type { Mode } from '../adapter/capabilities.ts'
import { invalid } from '../adapter/lock-error.ts'

export interface Sequencer {
  readonly name: string
  readonly mode: Mode
  readonly fence: bigint
}

/** Opaque to programs: `v1.<mode>.<fence>.<name in base64url>`. */
export function writeSequencer({ name, mode, fence }: Sequencer): string {
  return `v1.${mode}.${fence}.${Buffer.from(name).toString('base64url')}`
}

export function readSequencer(text: unknown): Sequencer {
  const parts = typeof text === 'string' ? /^v1\.(exclusive)\.(\d{1,40})\.([\w-]+)$/.exec(text) : null
  const [, , fence, name] = parts ?? []
  if (fence === undefined || name === undefined)
    throw invalid('the text is not the sequencer of a lease: pass lease.sequencer unchanged')
  return { name: Buffer.from(name, 'base64url').toString(), mode: 'exclusive', fence: BigInt(fence) }
}
