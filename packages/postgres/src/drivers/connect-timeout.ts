/** Within the time that core waits for a store by default. */
const CONNECTING_S = 5

/** How long connecting may take: `connect_timeout` of a URL, in seconds. */
export function connectTimeoutS(url: URL | undefined): number {
  return Number(url?.searchParams.get('connect_timeout') ?? CONNECTING_S)
}
