import { VoidRunError } from '@locks/core/conformance'
import type { LocksConfig } from '@locks/core'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { serverBackends } from '../config/backends.ts'
import { isSelected } from '../selection.ts'
import { startService } from '../services/index.ts'

const run = promisify(execFile)
const PERIODS = 100
const PERIOD_MS = 300
/** The late host calls 100 ms after the other one: within this, and with time to spare before the next period. */
const MIN_HOLD_MS = 200
/** How far the wall clock of one host is ahead of that of the other. */
const SHIFT_MS = 2_000
/** From here on a call may fall into another period than it was made for. */
const LATE_MS = 80

interface Call {
  readonly ran: boolean
  readonly calledAt: number
  readonly ranAt: number
  /** In which period it was made, by the real clock. */
  readonly calledIn: number
  /** In which period it ran, by the real clock. */
  readonly period: number
  readonly lateMs: number
  readonly tookMs: number
}

async function host(config: LocksConfig, shiftMs: number, until: number): Promise<readonly Call[]> {
  const terms = { config, shiftMs, periodMs: PERIOD_MS, minHoldMs: MIN_HOLD_MS, until }
  const { stdout } = await run(process.execPath, [
    join(import.meta.dirname, 'host.fixture.mjs'),
    JSON.stringify(terms),
  ])
  const calls: unknown = JSON.parse(stdout)
  if (!isCalls(calls)) throw new Error(`not the calls of a host: ${stdout}`)
  return calls
}

function isCalls(value: unknown): value is readonly Call[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'object' && 'ran' in one)
}

const stores = serverBackends.filter(({ name }) => ['redis', 'postgres-unique-key'].includes(name))

test.concurrent.each(stores.filter(({ name }) => isSelected(name)))(
  `two hosts whose clocks differ by 2 s run a short job once in each of ${PERIODS} periods, with $name`,
  async ({ service: kind, config }) => {
    await using service = await startService(kind)
    const where = await config(service)
    // Both have to be up before the periods that count begin.
    const first = Math.ceil((Date.now() + 3_000) / PERIOD_MS)
    const until = (first + PERIODS + 2) * PERIOD_MS
    const calls = (await Promise.all([host(where, 0, until), host(where, SHIFT_MS, until)])).flat()

    const runs = calls.filter(({ ran }) => ran).toSorted((a, b) => a.ranAt - b.ranAt)
    const gaps = runs.slice(1).map(({ ranAt }, n) => ranAt - (runs[n]?.calledAt ?? 0))
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(MIN_HOLD_MS)

    // A host that stood still may miss its period, or come to the next one.
    const late = calls.filter(({ lateMs, tookMs }) => lateMs + tookMs > LATE_MS)
    const isDisturbed = (period: number): boolean =>
      late.some(({ calledIn }) => Math.abs(calledIn - period) <= 1)
    const counted = Array.from({ length: PERIODS }, (_, n) => first + n)
      .filter((period) => !isDisturbed(period))
      .map((period) => ({ period, runs: runs.filter((one) => one.period === period).length }))
    if (counted.length < PERIODS / 2) {
      const lost = late.map(({ lateMs, tookMs }) => lateMs + tookMs)
      const stall = {
        who: 'a host',
        ms: lost.reduce((sum, each) => sum + each, 0),
        longestMs: Math.max(...lost),
      }
      throw new VoidRunError(`only ${counted.length} periods without a pause`, [stall])
    }
    expect(counted.filter((one) => one.runs !== 1)).toEqual([])
    // The other one came to nearly every period too, and found it taken.
    expect(calls.length - runs.length).toBeGreaterThan(PERIODS / 4)
  },
)
