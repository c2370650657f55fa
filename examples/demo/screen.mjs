const { stdout } = process
const live = stdout.isTTY === true
const coloured = live && stdout.hasColors() // false too when NO_COLOR is set

/** @param {number} code */
const paint =
  (code) =>
  /** @param {string} text */
  (text) =>
    coloured ? `\u001B[${code}m${text}\u001B[0m` : text

export const bold = paint(1)
export const dim = paint(2)
export const red = paint(31)
export const green = paint(32)

/** @param {string} [text] */
export function line(text = '') {
  stdout.write(`${live ? '\r\u001B[2K' : ''}${text}\n`)
}

/** Shows progress in place, on a terminal. @param {string} text */
export function progress(text) {
  if (live) stdout.write(`\r\u001B[2K  ${text.slice(0, (stdout.columns || 80) - 3)}`)
}

/**
 * @param {number} done
 * @param {number} all
 */
export function bar(done, all) {
  const width = 30
  const full = Math.min(width, Math.round((done / all) * width))
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}`
}

/**
 * Counts the seconds until `work` is over, next to the expected time.
 *
 * @template T
 * @param {string} what
 * @param {number} ofMs
 * @param {Promise<T>} work
 * @returns {Promise<{ value: T, tookMs: number }>}
 */
export async function timed(what, ofMs, work) {
  const start = performance.now()
  const tick = () => {
    const ms = performance.now() - start
    progress(`${bar(ms, ofMs)} ${what}: ${seconds(ms)}`)
  }
  const timer = setInterval(tick, 50)
  try {
    const value = await work
    return { value, tookMs: performance.now() - start }
  } finally {
    clearInterval(timer)
  }
}

/** @param {number} ms */
export function seconds(ms) {
  return `${(ms / 1000).toFixed(2)} s`
}
