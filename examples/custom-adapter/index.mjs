export { fromConfig, keyValue } from './adapter.mjs'
export { subject } from './subject.mjs'
