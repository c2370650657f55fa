import { plainStore } from './plain-store.js'

const store = plainStore()

/** A store inside the process that every call reaches. */
export const fromConfig = () => store
