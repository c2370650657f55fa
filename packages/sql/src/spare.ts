/** Connections that are opened for renewals alone: one, and another for when that one hangs. */
export const SPARE_CONNECTIONS: number = 2

interface Roomy {
  /** Whether a statement is sent at once, without waiting for a connection that others use. */
  hasRoom(): boolean
}

/**
 * Runs what must not wait behind other statements, as a renewal must not wait behind the work that its lock protects:
 * on `main` while that has room, on `spare` otherwise. MUST be idempotent: where the server has no connection for the
 * spare one, it is tried on `main` after all.
 */
export async function unqueued<R extends Roomy, T>(
  main: R,
  spare: R,
  work: (runner: R) => Promise<T>,
): Promise<T> {
  if (main.hasRoom()) return work(main)
  try {
    return await work(spare)
  } catch {
    return work(main)
  }
}
