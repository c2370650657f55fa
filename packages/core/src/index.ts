export { defaultOwner, isAttemptId, keptAttemptId } from './attempt-id.ts'
export type { Capabilities, Mode } from './capabilities.ts'
export { systemClock } from './clock.ts'
export type { Clock, Timer } from './clock.ts'
export { isLockError, LockError } from './errors.ts'
export type { LockErrorCode, LockErrorDetails } from './errors.ts'
export type { AcquireEnd, LockEventName, LockEvents } from './events.ts'
export { memoryGuard } from './guard.ts'
export type { Guard } from './guard.ts'
export type { Lease, LeaseJson, LeaseState } from './lease.ts'
export type { Lock, Once } from './lock.ts'
export { createLocks } from './locks.ts'
export type { Locks } from './locks.ts'
export type { AcquireOptions, LockOptions, LocksOptions, OnceOptions, RetryOptions } from './options.ts'
export { shareListener } from './shared-listener.ts'
export type { Emitter } from './shared-listener.ts'
export type {
  AcquireRequest,
  Adapter,
  AdapterFactory,
  AdapterHost,
  Busy,
  Finding,
  Grant,
  Handover,
  Holder,
  HolderMetadata,
  LockState,
  Pruned,
  PushedGrant,
  Renewal,
  RenewOutcome,
  Waiter,
} from './spi.ts'
export { loadAdapter, migrateStore, openLocks } from './config.ts'
export type { OpenOptions } from './config.ts'
export type { AdapterModule } from './config-import.ts'
export { schemes } from './config-schemes.ts'
export type * from './config-types.ts'
export { plainUrl } from './config-values.ts'
export { parseDuration, toMs } from './duration.ts'
export type { Duration } from './duration.ts'
export { fenceIdleOf, PruneSteps, Upkeep } from './upkeep.ts'
export { whatIs } from './what-is.ts'
