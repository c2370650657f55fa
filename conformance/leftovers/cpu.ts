import { readdir, readFile } from 'node:fs/promises'

/** Of Linux on every machine it is built for. */
const MS_PER_TICK = 10

interface Spent {
  readonly parent: number
  readonly ticks: number
  /** Of children that have ended. */
  readonly endedTicks: number
}

async function spentBy(pid: number): Promise<Spent | undefined> {
  let text: string
  try {
    text = await readFile(`/proc/${pid}/stat`, 'utf8')
  } catch {
    // It has ended since it was listed.
    return undefined
  }
  // The name of the program may contain anything, a parenthesis too.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [parent = 0, ...ticks] = [1, 11, 12, 13, 14].map((at) => Number(fields[at]))
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = ticks
  return { parent, ticks: user + system, endedTicks: endedUser + endedSystem }
}

/** CPU time that these processes and their children have spent until now. */
export async function cpuMsOf(roots: readonly number[]): Promise<number> {
  const all = new Map<number, Spent>()
  for (const entry of await readdir('/proc')) {
    const pid = Number(entry)
    const spent = Number.isInteger(pid) ? await spentBy(pid) : undefined
    if (spent !== undefined) all.set(pid, spent)
  }
  let ticks = 0
  for (const [pid, spent] of all) {
    let at: number | undefined = pid
    while (at !== undefined && !roots.includes(at)) at = all.get(at)?.parent
    if (at !== undefined) ticks += spent.ticks + spent.endedTicks
  }
  return ticks * MS_PER_TICK
}

/** CPU time that the whole machine has spent until now. */
export async function machineCpuMs(): Promise<number> {
  const [all = ''] = (await readFile('/proc/stat', 'utf8')).split('\n', 1)
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = all
    .split(/ +/)
    .slice(1)
    .map(Number)
  return (user + nice + system + irq + softirq + steal) * MS_PER_TICK
}
