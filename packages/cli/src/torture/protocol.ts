import type { LocksConfig } from '@locks/core'

/** What a worker process does. */
export interface WorkerOrder {
  readonly config: LocksConfig
  readonly store?: string
  /** Unique per start, and the name of its history file. */
  readonly process: string
  readonly file: string
  readonly names: readonly [string, ...string[]]
  /** Prefix of the names that only one task uses. */
  readonly prefix: string
  readonly tasks: number
  readonly seed: number
  readonly ttlMs: number
  readonly storeTimeoutMs: number
}

export type WorkerCall =
  | { readonly type: 'begin'; readonly order: WorkerOrder }
  /** Blocks its event loop: at once, or as soon as a lock is granted. */
  | { readonly type: 'block'; readonly ms: number; readonly at: 'once' | 'grant' }
  /** Its connections are about to be broken. */
  | { readonly type: 'burst' }
  | { readonly type: 'written'; readonly id: number; readonly accepted: boolean }
  | { readonly type: 'stop' }

export type WorkerMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly message: string }
  /** A write to the fenced resource, answered by `written`. */
  | { readonly type: 'write'; readonly id: number; readonly name: string; readonly fence: bigint }
  | { readonly type: 'granted'; readonly task: string }
  /** Something that must never happen, as text. */
  | { readonly type: 'wrong'; readonly what: string }
  | { readonly type: 'warning'; readonly text: string }

/** A fault of the connections of one worker. `flap` cuts repeatedly, also in the middle of a handshake. */
export type WireFault =
  | { readonly kind: 'cut' | 'lose-reply' }
  | { readonly kind: 'refuse'; readonly at: 'accept' | 'first-bytes' }
  | { readonly kind: 'flap'; readonly everyMs: number }
  | {
      readonly kind: 'delay'
      readonly ms: number
      readonly direction: 'both' | 'replies'
      /** Requests are dropped: only pending replies still arrive, late. */
      readonly losing: boolean
    }
  | { readonly kind: 'swallow'; readonly direction: 'requests' | 'replies' | 'both' }

export type ProxyCall =
  | { readonly type: 'open'; readonly slots: number; readonly targets: readonly Target[] }
  | { readonly type: 'fault'; readonly slot: number; readonly fault: WireFault }
  | { readonly type: 'heal'; readonly slot: number }
  | { readonly type: 'stopped' | 'continued'; readonly pid: number }

export interface ProxyMessage {
  readonly type: 'opened'
  /** By slot, then by target. */
  readonly ports: readonly (readonly number[])[]
}

export interface Target {
  readonly host: string
  readonly port: number
}
