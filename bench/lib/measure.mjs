// Shared machines are noisy: two things are measured alternately in one run, and compared as a ratio.

/**
 * Runs `ours` and `theirs` alternately, after one warm-up each.
 * @param {number} rounds
 * @param {number} operations in each call
 * @param {() => Promise<void>} ours
 * @param {() => Promise<void>} theirs
 */
export async function ratios(rounds, operations, ours, theirs) {
  /** @type {{ ours: number[], theirs: number[], ratio: number }} */
  const perSecond = { ours: [], theirs: [], ratio: 0 }
  await ours()
  await theirs()
  for (let round = 0; round < rounds; round += 1) {
    perSecond.ours.push(await rate(operations, ours))
    perSecond.theirs.push(await rate(operations, theirs))
  }
  perSecond.ratio = median(perSecond.ours.map((mine, round) => mine / (perSecond.theirs[round] ?? NaN)))
  return perSecond
}

/**
 * @param {number} operations
 * @param {() => Promise<void>} run
 */
async function rate(operations, run) {
  const start = performance.now()
  await run()
  return (operations / (performance.now() - start)) * 1_000
}

/** @param {readonly number[]} values */
export function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN
}

/**
 * Heap growth per item, after garbage collection. Needs `--expose-gc`.
 * @param {number} items
 * @param {() => Promise<void>} make
 */
export async function heapOf(items, make) {
  const { gc } = globalThis
  if (gc === undefined) throw new Error('run node with --expose-gc')
  gc()
  const before = process.memoryUsage().heapUsed
  await make()
  gc()
  return (process.memoryUsage().heapUsed - before) / items
}

/**
 * Prints the measurements. The process fails if a target is missed.
 * @param {string} title
 * @param {readonly { what: string, ours: number, theirs?: number, atLeast?: number, atMost?: number }[]} rows
 */
export function report(title, rows) {
  if (process.argv.includes('--json')) return console.log(JSON.stringify({ title, rows }))
  console.log(`\n${title}`)
  for (const { what, ours, theirs, atLeast = -Infinity, atMost = Infinity } of rows) {
    const aim = atLeast > -Infinity ? `target ≥ ${atLeast}` : atMost < Infinity ? `target ≤ ${atMost}` : ''
    const met = ours >= atLeast && ours <= atMost
    if (!met) process.exitCode = 1
    const beside = theirs === undefined ? aim : `compared with ${show(theirs)}`
    console.log(`  ${what.padEnd(44)} ${show(ours).padStart(12)}  ${beside}${met ? '' : '  MISSED'}`)
  }
}

/** @param {number} value */
function show(value) {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(2)
}
