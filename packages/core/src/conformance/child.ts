import { readFileSync, writeFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import { loadAdapter } from '../config/open.ts'
import { isLockError } from '../adapter/lock-error.ts'
import type { Lease, Locks } from '../api/contract.ts'
import { createLocks } from '../api/locks.ts'
import type { ChildCalls, ChildLease, ChildReport, ChildRequest } from './child-calls.ts'
import { contend } from './contend.ts'
import { createRecorder } from './history.ts'
import { Heartbeat } from './time/heartbeat.ts'
import { REPORT_MS } from './time/stall-meter.ts'
import { stall } from './stall.ts'

let opened: Locks | undefined
let orphaned = true
const leases = new Map<number, Lease>()
const contended = new Set<string>()

function locks(): Locks {
  if (opened === undefined) throw new Error('call open first')
  return opened
}

function leaseOf(number: number): Lease {
  const lease = leases.get(number)
  if (lease === undefined) throw new Error(`no lease ${number}`)
  return lease
}

function keep(lease: Lease): ChildLease {
  const number = leases.size + 1
  leases.set(number, lease)
  return { lease: number, fence: lease.fence }
}

type Calls = { [K in keyof ChildCalls]: (args: ChildCalls[K]['args']) => Promise<ChildCalls[K]['result']> }

const calls: Calls = {
  async open({ config, options }) {
    opened = createLocks(await loadAdapter(config), options)
    opened.on('contended', ({ lock }) => void contended.add(lock))
  },
  acquire: async ({ lock, options }) => keep(await locks().lock(lock).acquire(options)),
  async tryAcquire({ lock, options }) {
    const lease = await locks().lock(lock).tryAcquire(options)
    return lease && keep(lease)
  },
  contended: async ({ lock }) => contended.has(lock),
  release: ({ lease }) => leaseOf(lease).release(),
  extend: ({ lease }) => leaseOf(lease).extend(),
  async state({ lease }) {
    const { state, remainingMs } = leaseOf(lease)
    return { state, remainingMs }
  },
  assertHeld: async ({ lease }) => leaseOf(lease).assertHeld(),
  serialize: async ({ lease }) => leaseOf(lease).serialize(),
  resume: async ({ text }) => keep(await locks().resume(text)),
  async work({ lease: number, process: label, file }) {
    const lease = leaseOf(number)
    const recorder = createRecorder(file, label)
    const held = { name: lease.name, task: 'work', fence: lease.fence }
    recorder.record({ ...held, type: 'acquire-called' })
    recorder.record({ ...held, type: 'granted', deadline: recorder.deadline(() => lease.remainingMs) })
    void (async () => {
      for (let step = 1; ; step += 1) {
        const deadline = recorder.deadline(() => lease.remainingMs)
        // A lease that is lost by now has no deadline to read.
        if (lease.state !== 'held' && lease.state !== 'jeopardy') break
        recorder.record({ ...held, type: 'renewed', deadline })
        const t = recorder.now()
        try {
          lease.assertHeld()
        } catch {
          break
        }
        recorder.record({ ...held, t, type: 'protected' })
        // Rarely, so that a pause most likely falls where no timer can run before the next step.
        if (step % 16 === 0) await turn()
      }
      recorder.record({ ...held, type: 'lost' })
    })()
  },
  async contend({ process: label, file, counter, ...options }) {
    return contend(locks(), {
      ...options,
      recorder: createRecorder(file, label),
      counter: {
        read: () => Number(readFileSync(counter, 'utf8')),
        write: (value) => writeFileSync(counter, String(value)),
      },
    })
  },
  stall: (options) => stall(locks(), options),
  async run({ module, name, args }) {
    const exported: unknown = Reflect.get(await import(module), name)
    if (typeof exported !== 'function') throw new Error(`${module} does not export a function ${name}`)
    const result: unknown = await Reflect.apply(exported, undefined, [args])
    return result
  },
  timers: async () => process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length,
  close: () => locks().close(),
  async reset() {
    await opened?.close()
    opened = undefined
    leases.clear()
    contended.clear()
  },
  async disconnect() {
    orphaned = false
    // After the reply was sent.
    setImmediate(() => process.disconnect())
  },
}

async function answer({ id, name, args }: ChildRequest): Promise<object> {
  try {
    return { id, result: await calls[name](args) }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { id, error: isLockError(error) ? { code: error.code, message } : { message } }
  }
}

const heartbeat = new Heartbeat()
heartbeat.start()
setInterval(() => {
  const report: ChildReport = { gaps: heartbeat.take() }
  if (report.gaps.length > 0 && process.connected) process.send?.(report)
}, REPORT_MS).unref()

process.on('message', (request: ChildRequest) => {
  void answer(request).then((reply) => process.send?.(reply))
})
// A child whose parent was killed must not keep contending.
process.on('disconnect', () => {
  if (orphaned) process.exit(1)
})
