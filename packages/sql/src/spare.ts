import type { Room } from './statements.ts'

/** Connections opened for renewals alone: one, and another for when that one hangs. */
export const SPARE_CONNECTIONS: number = 2

/**
 * Runs work that must not queue behind other statements, as a renewal must not queue behind the work that its lock
 * protects: on `main` while it has room, otherwise on `spare`. `work` MUST be idempotent: where the server refuses the
 * spare connection, it runs on `main` after all.
 */
export async function unqueued<R extends Pick<Room, 'hasRoom'>, T>(
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
