export { checkHistory, summarise } from './check-history.ts'
export type { CheckOptions, Invariant, Summary, Violation } from './check-history.ts'
export { CaseRun, slowFactor } from './case-run.ts'
export type { CaseHost } from './case-run.ts'
export { startChild } from './child-process.ts'
export type { Child } from './child-process.ts'
export { conformance } from './conformance.ts'
export type { ConformanceCase } from './conformance.ts'
export { startFaultProxy } from './fault-proxy.ts'
export type { FaultProxy, FaultProxyOptions, Frames, Shift, Target } from './fault-proxy.ts'
export { faulty } from './faulty-adapter.ts'
export type { AdapterMethod, Fault, Faults } from './faulty-adapter.ts'
export { Harness } from './harness.ts'
export type { TestClient } from './harness.ts'
export { createRecorder, readHistory } from './history.ts'
export type { HistoryEntry, HistoryEvent, Recorder } from './history.ts'
export { lineFrames, postgresFrames, redisFrames, zookeeperFrames } from './reply-frames.ts'
export { replayHistory } from './replay-history.ts'
export type { Fault as HistoryFault, Hold, NameHistory, Replay, Wait } from './replay-history.ts'
export type { Area, Need, Rule, RuleKind } from './rule.ts'
export { rules } from './rules/index.ts'
export type { ServerControl, Subject, Wire } from './subject.ts'
export { openTestAdapter } from './test-adapter.ts'
export type { TestAdapter } from './test-adapter.ts'
export {
  assertInTime,
  eventually,
  inTime,
  isOverdue,
  isVoidRun,
  judgeFailure,
  LateError,
  VoidRunError,
} from './time/bounds.ts'
export type { Bound } from './time/bounds.ts'
export { block } from './time/heartbeat.ts'
export { stallMeter } from './time/stall-meter.ts'
export type { Stall, StallMeter } from './time/stall-meter.ts'
export { untilValid } from './time/void-runs.ts'
export { versionedStoreContract } from './versioned-store/contract.ts'
export type { ContractCase } from './versioned-store/contract.ts'
export type { StoreModule, StoreSubject } from './versioned-store/subject.ts'
