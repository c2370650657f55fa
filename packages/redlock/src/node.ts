import type { AcquireRequest, Finding, Renewal, RenewOutcome } from '@locks/core/adapter'
import type { Identity, Look, Refusal } from '@locks/redis/node'

/** One of the independent servers. Each method is one atomic step there. */
export interface RedlockNode {
  attempt(request: AcquireRequest): Promise<bigint | Refusal>
  release(name: string, attemptId: string): Promise<'released' | 'not-held'>
  /** As `release`, and the name stays taken there for `keepMs` more. Repeated, it answers the same. */
  keep(name: string, attemptId: string, keepMs: number): Promise<'released' | 'not-held'>
  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]>
  look(name: string): Promise<Look>
  /** Whether the attempt still holds the name. If so, `fence` replaces the one `minted`, and later ones are higher. */
  raise(name: string, attemptId: string, fence: bigint, minted: bigint): Promise<boolean>
  /** Calls `found` with names that are held there under a fence, a page at a time, until it returns false. */
  names(found: (names: readonly string[]) => Promise<boolean>): Promise<void>
  /** Deletes fences of free names that were minted longer ago than `idleMs`, a page at a time. */
  prune(idleMs: number, names?: readonly string[]): AsyncGenerator<number, void>
  diagnose(): Promise<readonly Finding[]>
  /** Undefined if the server does not say. */
  identity(): Promise<Identity | undefined>
  watch(name: string, wake: () => void): () => void
  close(): void
}
