import { line, seconds, timed } from '../screen.mjs'

/** @type {import('../stage.mjs').Act} */
export async function killedHolder({ shops, slackMs, ttlOf }) {
  const [holder, waiter] = shops
  if (holder === undefined || waiter === undefined) throw new Error('two shops are needed')
  const holds = holder.next('holding')
  holder.tell({ task: 'hold-forever' })
  const { fence, leaseMs } = await holds
  const ttlMs = ttlOf(leaseMs)
  line(`  ${holder.name} (pid ${holder.pid}) holds the lock, fence ${fence}, ttl ${seconds(ttlMs)}`)
  const waits = waiter.next('waiting')
  const taken = waiter.next('holding')
  const served = waiter.next('served')
  waiter.tell({ task: 'take-over' })
  await waits
  line(`  ${waiter.name} (pid ${waiter.pid}) waits; ${holder.name} is killed with SIGKILL`)
  holder.signal('SIGKILL')
  const limit = { ttlMs, slackMs }
  const { value: next, tookMs, inTime, bounds } = await timed('since the kill', limit, taken)
  await served
  line(`  ${waiter.name} holds it ${seconds(tookMs)} later, fence ${next.fence}`)
  return [
    {
      held: inTime && next.fence > fence,
      claim: `holder killed: the next one held after ${seconds(tookMs)}, ${bounds}`,
    },
  ]
}
