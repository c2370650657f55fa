import { plainStore } from './plain-store.js'

/** A store that can be named in config. */
export const fromConfig = () => plainStore()
