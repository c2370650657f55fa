/** A counting semaphore. */
export interface Turns {
  take(): Promise<void>
  give(): void
}

export function turns(most: number): Turns {
  let free = most
  const waiting: (() => void)[] = []
  return {
    take: () =>
      new Promise((resolve) => {
        if (free === 0) return void waiting.push(resolve)
        free -= 1
        resolve()
      }),
    give() {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    },
  }
}
