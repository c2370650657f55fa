import { startFaultProxy } from '@locks/core/conformance'
import type { FaultProxy } from '@locks/core/conformance'
import { signals } from '../invocation.ts'
import type { ProxyCall, ProxyMessage, WireFault } from './protocol.ts'

// The proxies of all workers, in their own process: a busy parent must not slow down the connections.

let proxies: readonly (readonly FaultProxy[])[] = []
const flapping = new Map<number, NodeJS.Timeout>()
const stopped = new Set<number>()

for (const signal of signals) process.on(signal, () => undefined)
process.on('disconnect', () => {
  // The parent is gone. A worker that it paused could never end.
  for (const pid of stopped) process.kill(pid, 'SIGCONT')
  process.exit(0)
})

process.on('message', (call: ProxyCall) => {
  if (call.type === 'open') void open(call.slots, call.targets)
  else if (call.type === 'fault') inject(call.slot, call.fault)
  else if (call.type === 'heal') heal(call.slot)
  else if (call.type === 'stopped') stopped.add(call.pid)
  else stopped.delete(call.pid)
})

async function open(slots: number, targets: readonly { host: string; port: number }[]): Promise<void> {
  const rows = Array.from({ length: slots }, () =>
    Promise.all(targets.map((target) => startFaultProxy(target))),
  )
  proxies = await Promise.all(rows)
  const message: ProxyMessage = {
    type: 'opened',
    ports: proxies.map((row) => row.map(({ port }) => port)),
  }
  process.send?.(message)
}

function inject(slot: number, fault: WireFault): void {
  const own = proxies[slot] ?? []
  if (fault.kind === 'flap') {
    const cut = (): void => own.forEach((proxy) => proxy.reset())
    cut()
    flapping.set(slot, setInterval(cut, fault.everyMs))
    return
  }
  for (const proxy of own)
    if (fault.kind === 'cut') proxy.reset()
    else if (fault.kind === 'refuse') proxy.refuse(fault.at)
    else if (fault.kind === 'delay')
      proxy.delay(fault.ms, {
        direction: fault.direction,
        ...(fault.losing && { vanishing: 'requests' as const }),
      })
    else if (fault.kind === 'swallow') proxy.blackhole(fault.direction)
    // Rejects if no reply came before `heal`: the fault had no effect.
    else proxy.swallowNextReply().catch(() => undefined)
}

function heal(slot: number): void {
  clearInterval(flapping.get(slot))
  flapping.delete(slot)
  for (const proxy of proxies[slot] ?? []) proxy.pass()
}
