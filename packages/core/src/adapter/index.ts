// What adapters are built from, and what tools need to open them.
export { parseDuration, toMs } from './duration.ts'
export type { Duration } from './duration.ts'
export { isLockError, LockError } from './lock-error.ts'
export type { LockErrorCode, LockErrorDetails } from './lock-error.ts'
export type { AdapterModule } from '../config/import.ts'
export { loadAdapter, migrateStore } from '../config/open.ts'
export { schemes } from '../config/schemes.ts'
export { plainUrl } from './url.ts'
export { defaultOwner, isAttemptId, keptAttemptId } from './attempt-id.ts'
export { batchesOf } from './batches.ts'
export { capabilities } from './capabilities.ts'
export type { Capabilities, CapabilitiesOf, Mode } from './capabilities.ts'
export { CERTIFICATE_REFUSED, isCertificateError } from './certificates.ts'
export { didYouMean } from './did-you-mean.ts'
export { errorsOf } from './errors.ts'
export type { AdapterErrors } from './errors.ts'
export { danger, findingsOf, inOneLine, ok, verdicts, warning, worstFindings } from './findings.ts'
export type { Checks, Verdict, WorstFinding } from './findings.ts'
export { readHolder, readMetadata, writeHolder } from './holder.ts'
export { isRecord } from './is-record.ts'
export type { Declaration, Given, Option, OptionTable, Settled } from './option-types.ts'
export { once } from './once.ts'
export { invalidOption, isWhole, queryOptions, settleOptions, urlOf, wrongOption } from './options.ts'
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
export {
  graceMs,
  onSilence,
  orAfter,
  Patience,
  pause,
  PAUSE_MS,
  safeTtlMs,
  systemClock,
  Wake,
  wasPaused,
} from './time.ts'
export type { Clock, SleepOptions, Timer, Waking } from './time.ts'
export { EARLY_SHARE, PruneSteps, Upkeep } from './upkeep.ts'
export { urlDecoded, urlParts } from './url.ts'
export type { UrlParts } from './url.ts'
export type { Put, StoreFactory, Versioned, VersionedStore } from './versioned-store.ts'
export { whatIs } from './what-is.ts'
