/**
 * Gives back what it was configured with, by way of an error.
 *
 * @param {object} options
 */
export function fromConfig(options) {
  throw Object.assign(new Error('recorded'), { options })
}
