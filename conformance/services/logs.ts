/** The servers that this process has started and not yet closed. */
const live = new Set<() => Promise<string>>()

export function registerLog(log: () => Promise<string>): () => void {
  live.add(log)
  return () => void live.delete(log)
}

/** The end of what each of them wrote, to look into a failure. */
export async function serverLogs(): Promise<string> {
  const logs = await Promise.all(
    [...live].map((log) => log().catch((error: unknown) => `no log: ${String(error)}`)),
  )
  return logs.join('\n')
}
