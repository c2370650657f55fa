import { line, seconds, timed } from '../screen.mjs'

/** @type {import('../stage.mjs').Act} */
export async function pausedHolder({ shops, warehouse, slackMs, ttlOf }) {
  const [sleeper, successor] = shops.slice(-2)
  if (sleeper === undefined || successor === undefined) throw new Error('two shops are needed')
  const stock = 10
  await warehouse.write(stock)
  const holds = sleeper.next('holding')
  sleeper.tell({ task: 'sell-naively' })
  const { fence: stale, leaseMs } = await holds
  const ttlMs = ttlOf(leaseMs)
  line(
    `  ${sleeper.name} (pid ${sleeper.pid}) holds the lock, fence ${stale}, and has read a stock of ${stock}`,
  )
  const waits = successor.next('waiting')
  const taken = successor.next('holding')
  const served = successor.next('served')
  successor.tell({ task: 'take-over' })
  await waits
  line(`  ${sleeper.name} is paused with SIGSTOP, as by a long garbage collection or a laptop lid`)
  sleeper.signal('SIGSTOP')
  const limit = { ttlMs, slackMs }
  const { value: next, tookMs, inTime, bounds } = await timed('since the pause', limit, taken)
  await served
  const sold = await warehouse.read()
  line(
    `  ${successor.name} took over after ${seconds(tookMs)}, fence ${next.fence}, and sold one: ${sold} left`,
  )

  const woke = sleeper.next('woke')
  const told = sleeper.next('told')
  // Sent while it sleeps, so that its write is the first thing it does.
  sleeper.tell({ task: 'go-on' })
  sleeper.signal('SIGCONT')
  const { state, aborted, refused } = await woke
  const { code } = await told
  const left = await warehouse.read()
  line(`  ${sleeper.name} wakes up and writes what it meant to, without looking: ${refused ?? 'accepted!'}`)
  line(
    `  its lease says ${state}, its signal is ${aborted ? 'aborted' : 'not aborted'}, with() rejects with ${code}`,
  )
  return [
    {
      held: inTime && next.fence > stale,
      claim: `holder paused: taken over after ${seconds(tookMs)}, ${bounds}`,
    },
    {
      held: state === 'lost' && aborted && code === 'LOCK_LOST',
      claim: `woken up, its lease is ${state} and its caller gets ${code}`,
    },
    {
      held: refused !== undefined && sold === stock - 1 && left === sold,
      claim: `its late write with fence ${stale} is ${refused ? 'refused' : 'accepted'}: the warehouse has seen ${next.fence}`,
    },
  ]
}
