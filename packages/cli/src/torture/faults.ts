import type { WireFault } from './protocol.ts'
import type { Random } from './random.ts'

const wireFaults = ['cut', 'delay', 'swallow', 'refuse'] as const
type WireFaultKind = (typeof wireFaults)[number]
export type FaultKind = 'kill' | 'pause' | 'block' | WireFaultKind
export const faultKinds: readonly FaultKind[] = ['kill', 'pause', 'block', ...wireFaults]

/** A fault of the servers, which only the owner of the deployment can inject. */
export interface ServerFault {
  readonly name: string
  /** Resolves when the servers work again. */
  run(random: Random): Promise<void>
}

export function isWireFault(kind: string): kind is WireFaultKind {
  return wireFaults.some((one) => one === kind)
}

/** Of the faults that were asked for, by what they hit: how often each happened. */
export function countsByTarget(
  asked: readonly FaultKind[],
  serverFaults: readonly ServerFault[],
  happened: Readonly<Record<string, number>>,
): { readonly wire?: number; readonly process?: number; readonly server?: number } {
  const kinds = {
    wire: asked.filter((kind) => isWireFault(kind)),
    process: asked.filter((kind) => !isWireFault(kind)),
    server: serverFaults.map(({ name }) => name),
  }
  const counts = Object.entries(kinds)
    .filter(([, names]) => names.length > 0)
    .map(([target, names]) => [target, names.reduce((sum, name) => sum + (happened[name] ?? 0), 0)] as const)
  return Object.fromEntries(counts)
}

/** One state of the connections, and for how long. */
export interface WireStep {
  readonly fault: WireFault
  readonly ms: number
}

/** The steps of a connection fault, one after the other. */
export function wireFault(kind: WireFaultKind, random: Random, ttlMs: number): readonly WireStep[] {
  switch (kind) {
    case 'cut':
      return cut(random, ttlMs)
    case 'delay':
      return delay(random, ttlMs)
    case 'swallow':
      if (random.chance(0.5)) return [{ fault: { kind: 'lose-reply' }, ms: random.between(50, 300) }]
      return [
        {
          fault: { kind: 'swallow', direction: random.pick(['replies', 'replies', 'requests', 'both']) },
          ms: lastingMs(random, ttlMs),
        },
      ]
    case 'refuse':
      return [
        {
          fault: { kind: 'refuse', at: random.pick(['accept', 'first-bytes']) },
          ms: random.chance(0.6) ? random.between(10, 150) : lastingMs(random, ttlMs),
        },
      ]
    default:
      return kind satisfies never
  }
}

function cut(random: Random, ttlMs: number): readonly WireStep[] {
  const once: WireStep = { fault: { kind: 'cut' }, ms: 1 }
  switch (random.between(1, 3)) {
    case 1:
      return [once]
    case 2:
      // In the middle of a handshake.
      return [{ fault: { kind: 'flap', everyMs: random.between(2, 30) }, ms: random.between(20, 300) }]
    default: {
      // The server executes everything, no reply arrives, and the client cannot retry at once.
      const ms = random.between(10, 150)
      return [
        { fault: { kind: 'delay', ms: ms * 2, direction: 'replies', losing: false }, ms },
        random.chance(0.3)
          ? once
          : { fault: { kind: 'refuse', at: 'accept' }, ms: random.between(20, ttlMs * 0.4) },
      ]
    }
  }
}

function delay(random: Random, ttlMs: number): readonly WireStep[] {
  const share = (least: number, most: number): number =>
    Math.round(ttlMs * (least + random.fraction() * (most - least)))
  switch (random.between(1, 3)) {
    case 1: {
      const ms = random.between(5, ttlMs)
      return [{ fault: { kind: 'delay', ms, direction: 'both', losing: false }, ms: share(0.1, 3) }]
    }
    case 2: {
      // The store counts from the request. A client that counts from the reply relies on its lease too long.
      const ms = random.chance(0.7) ? share(0.3, 0.95) : share(1, 2)
      return [{ fault: { kind: 'delay', ms, direction: 'replies', losing: false }, ms: share(1, 2.5) }]
    }
    default: {
      // The same bug in renewals shows if the renewals after a late reply are lost.
      const late = { kind: 'delay', ms: share(0.3, 0.9), direction: 'replies' } as const
      return [
        { fault: { ...late, losing: false }, ms: share(0.3, 1) },
        { fault: { ...late, losing: true }, ms: share(1.3, 2) },
      ]
    }
  }
}

/** Shorter than the lease, or longer. */
export function lastingMs(random: Random, ttlMs: number): number {
  return Math.round(
    ttlMs * (random.chance(0.5) ? 0.1 + random.fraction() * 0.7 : 1.1 + random.fraction() * 0.6),
  )
}
