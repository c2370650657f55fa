import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

type Parentage = readonly [pid: number, parent: number]

/** All descendants of a process, as far as the system still knows their parents. */
export function descendantsOf(ancestor: number): readonly number[] {
  const children = new Map<number, number[]>()
  for (const [pid, parent] of parentages()) children.set(parent, [...(children.get(parent) ?? []), pid])
  const found: number[] = []
  for (let next = [ancestor]; next.length > 0;) {
    next = next.flatMap((pid) => children.get(pid) ?? [])
    found.push(...next)
  }
  return found
}

/** From /proc if it exists, since a small system may lack `ps`. Empty if neither exists. */
function parentages(): readonly Parentage[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? parentageOf(Number(name)) : []))
  } catch {
    return listed()
  }
}

function parentageOf(pid: number): readonly Parentage[] {
  try {
    // After the name, which may contain anything: state and parent.
    const [, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return [[pid, Number(parent)]]
  } catch {
    // It has just ended.
    return []
  }
}

function listed(): readonly Parentage[] {
  try {
    const text = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    return text.split('\n').flatMap((line): readonly Parentage[] => {
      const [pid, parent] = line.trim().split(/\s+/).map(Number)
      return pid === undefined || parent === undefined ? [] : [[pid, parent]]
    })
  } catch {
    return []
  }
}
