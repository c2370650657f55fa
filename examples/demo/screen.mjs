import { stallMeter } from '@locks/core/conformance'

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
 * Counts the seconds until `work` is over, next to the ttl that it should take. `inTime` says whether it took no more
 * than the ttl and `slackMs`, without the time for which this machine stood still.
 *
 * @template T
 * @param {string} what
 * @param {{ ttlMs: number, slackMs: number }} bound
 * @param {Promise<T>} work
 * @returns {Promise<{ value: T, tookMs: number, inTime: boolean, bounds: string }>}
 */
export async function timed(what, { ttlMs, slackMs }, work) {
  const stopMeter = stallMeter.start()
  const start = performance.now()
  const tick = () => {
    const ms = performance.now() - start
    progress(`${bar(ms, ttlMs)} ${what}: ${seconds(ms)}`)
  }
  const timer = setInterval(tick, 50)
  try {
    const value = await work
    const tookMs = performance.now() - start
    const boundMs = ttlMs + slackMs
    const stalls = tookMs <= boundMs ? [] : await stallMeter.since(tookMs)
    const lostMs = stalls.reduce((sum, { ms }) => sum + ms, 0)
    const excuse = lostMs > 0 ? `; the machine stood still for ${seconds(lostMs)}` : ''
    const bounds = `ttl ${seconds(ttlMs)}, bound ${seconds(boundMs)}${excuse}`
    return { value, tookMs, inTime: tookMs - lostMs <= boundMs, bounds }
  } finally {
    clearInterval(timer)
    stopMeter()
  }
}

/** @param {number} ms */
export function seconds(ms) {
  return `${(ms / 1000).toFixed(2)} s`
}
