import * as fc from 'fast-check'

export { fc }
