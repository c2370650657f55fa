import { setTimeout as sleep } from 'node:timers/promises'

// One host of a fleet: calls a job at every period of its own wall clock, which is ahead by `shiftMs`, until the time
// that it is sent, and sends what became of each call. Then it waits for another time, or for 'close'.

/** @typedef {Record<'shiftMs' | 'periodMs' | 'minHoldMs', number>} Terms */
/** @type {Terms & { config: import('@locks/core').LocksConfig }} */
const { config, shiftMs, periodMs, minHoldMs } = JSON.parse(process.argv[2] ?? '')
const realNow = Date.now
const shiftedNow = () => realNow() + shiftMs
globalThis.Date = new Proxy(Date, {
  construct: (target, args) => Reflect.construct(target, args.length === 0 ? [shiftedNow()] : args),
  get: (target, key) => (key === 'now' ? shiftedNow : Reflect.get(target, key)),
})

// Only now, so that nothing of it has kept the real clock.
const { openLocks } = await import('@locks/core')
const locks = await openLocks(config)
await locks.inspect('the job')

/** Of the machine, the same for all processes and unmoved by a clock that is set. */
const now = () => Number(process.hrtime.bigint()) / 1e6
/** The period of the real clock. */
const periodOf = (/** @type {number} */ at) => Math.floor(at / periodMs)

/** @param {number} until */
async function callsUntil(until) {
  const calls = []
  while (realNow() < until) {
    const next = Math.floor(Date.now() / periodMs + 1) * periodMs
    while (Date.now() < next) await sleep(next - Date.now())
    const lateMs = Date.now() - next
    const calledAt = now()
    let [ranAt, period] = [0, 0]
    const { ran } = await locks.once('the job', { minHoldMs }, async () => {
      ranAt = now()
      period = periodOf(realNow())
      await sleep(5)
    })
    const [due, keptUntil] = [periodOf(next - shiftMs), periodOf(realNow() + minHoldMs)]
    calls.push({ ran, calledAt, ranAt, period, due, keptUntil, lateMs, tookMs: now() - calledAt })
  }
  return calls
}

process.on('message', (until) => {
  if (until === 'close') void locks.close().then(() => process.exit())
  else void callsUntil(Number(until)).then((calls) => process.send?.(calls))
})
process.once('disconnect', () => process.exit())
process.send?.('ready')
