/** Probes again and again until there is something. The time-out of the test is the bound. */
export async function until<T>(
  probe: () => Promise<T | false | undefined> | T | false | undefined,
): Promise<T> {
  for (;;) {
    const found = await probe()
    if (found !== undefined && found !== false) return found
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
