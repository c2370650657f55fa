export { fromConfig, reference } from './adapter.ts'
export type { ReferenceCapabilities, ReferenceOptions } from './adapter.ts'
export { startReferenceServer } from './start.ts'
export type { ReferenceServer } from './start.ts'
