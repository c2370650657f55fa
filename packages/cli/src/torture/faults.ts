import type { WireFault } from './protocol.ts'
import type { Random } from './random.ts'

const wireFaults = ['cut', 'delay', 'swallow', 'refuse'] as const
type WireFaultKind = (typeof wireFaults)[number]
export type FaultKind = 'kill' | 'pause' | 'block' | WireFaultKind
export const faultKinds: readonly FaultKind[] = ['kill', 'pause', 'block', ...wireFaults]

/** A fault of the servers, which only the owner of a deployment can cause. */
export interface ServerFault {
  readonly name: string
  /** Resolves when the servers work again. */
  run(random: Random): Promise<void>
}

export function isWireFault(kind: string): kind is WireFaultKind {
  return wireFaults.some((one) => one === kind)
}

/** What exactly happens on the wire, and for how long. */
export function wireFault(
  kind: WireFaultKind,
  random: Random,
  ttlMs: number,
): { readonly fault: WireFault; readonly ms: number } {
  switch (kind) {
    case 'cut':
      // A single cut, or several in the middle of what a client says when it connects.
      return random.chance(0.5)
        ? { fault: { kind: 'cut' }, ms: 1 }
        : { fault: { kind: 'flap', everyMs: random.between(2, 30) }, ms: random.between(20, 300) }
    case 'delay':
      return { fault: { kind: 'delay', ms: random.between(5, ttlMs) }, ms: random.between(100, ttlMs * 3) }
    case 'swallow':
      if (random.chance(0.5)) return { fault: { kind: 'lose-reply' }, ms: random.between(50, 300) }
      return {
        fault: { kind: 'swallow', direction: random.pick(['replies', 'replies', 'requests', 'both']) },
        ms: lastingMs(random, ttlMs),
      }
    case 'refuse':
      return {
        fault: { kind: 'refuse', at: random.pick(['accept', 'first-bytes']) },
        ms: random.chance(0.6) ? random.between(10, 150) : lastingMs(random, ttlMs),
      }
    default:
      return kind satisfies never
  }
}

/** Shorter than the lease, or longer. */
export function lastingMs(random: Random, ttlMs: number): number {
  return Math.round(
    ttlMs * (random.chance(0.5) ? 0.1 + random.fraction() * 0.7 : 1.1 + random.fraction() * 0.6),
  )
}
