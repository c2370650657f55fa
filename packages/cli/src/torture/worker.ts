import { openLocks } from '@locks/core'
import { block, createRecorder } from '@locks/core/conformance'
import { signals } from '../invocation.ts'
import { bursts, burstTasks } from './burst.ts'
import { keepersOf, runKeeper } from './keeper.ts'
import type { WorkerCall, WorkerMessage, WorkerOrder } from './protocol.ts'
import { seeded } from './random.ts'
import { runTask } from './run-task.ts'

// A worker: one client, a few tasks. It may be killed, paused and blocked at any moment.

const stop = new AbortController()
const writes = new Map<number, (accepted: boolean) => void>()
let nextWrite = 0
let blockAtGrantMs = 0
let burst = (): void => undefined

// Ctrl-C reaches every process of a terminal; the parent process shuts this one down.
for (const signal of signals) process.on(signal, () => undefined)
process.on('disconnect', () => process.exit(0))
process.on('warning', ({ name, message }) => tell({ type: 'warning', text: `${name}: ${message}` }))
process.on('uncaughtException', (error) => {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const message: WorkerMessage = { type: 'wrong', what: `an uncaught error ended a worker: ${text}` }
  if (process.connected) process.send?.(message, () => process.exit(1))
  else process.exit(1)
})

process.on('message', (call: WorkerCall) => {
  if (call.type === 'begin') void begin(call.order)
  else if (call.type === 'block' && call.at === 'once') block(call.ms)
  else if (call.type === 'block') blockAtGrantMs = call.ms
  else if (call.type === 'burst') burst()
  else if (call.type === 'stop') stop.abort(new Error('the run is over'))
  else {
    writes.get(call.id)?.(call.accepted)
    writes.delete(call.id)
  }
})

function tell(message: WorkerMessage): void {
  if (process.connected) process.send?.(message)
}

/** A stall right after a grant is the most harmful. */
function granted(): void {
  const ms = blockAtGrantMs
  blockAtGrantMs = 0
  block(ms)
}

function write(name: string, fence: bigint): Promise<boolean> {
  const id = nextWrite++
  tell({ type: 'write', id, name, fence })
  return new Promise((resolve) => writes.set(id, resolve))
}

async function begin(order: WorkerOrder): Promise<void> {
  const { config, store, ttlMs, storeTimeoutMs } = order
  try {
    // Adapters with sessions ignore the ttl.
    const options = { ttlMs, storeTimeoutMs, ...(store !== undefined && { store }) }
    const locks = await openLocks(config, options)
    const recorder = createRecorder(order.file, order.process)
    tell({ type: 'ready' })
    const common = { locks, recorder, order, stop: stop.signal, granted, write, tell }
    const tasks = Array.from({ length: order.tasks }, (_, n) =>
      runTask({ ...common, task: `t${n + 1}`, random: seeded(order.seed, n) }),
    )
    const keepers = keepersOf(order.tasks).map((plan, n) =>
      runKeeper({ ...common, task: plan.task, random: seeded(order.seed, 500 + n) }, plan),
    )
    const late = burstTasks.map((task, n) => ({ ...common, task, random: seeded(order.seed, 900 + n) }))
    const waves = bursts(late, stop.signal)
    burst = () => waves.begin()
    await Promise.all([...tasks, ...keepers])
    await waves.over()
    await locks.close()
    process.exit(0)
  } catch (error) {
    tell({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
  }
}
