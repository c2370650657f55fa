import type { Finding } from './spi.ts'

/** The check found no problem. */
export function ok(check: string, message: string): Finding {
  return { check, level: 'ok', message }
}

/** Locks may fail or be slow. */
export function warning(check: string, message: string, advice: string): Finding {
  return { check, level: 'warning', message, advice }
}

/** Two clients may hold one lock, or a fence may decrease. */
export function danger(check: string, message: string, advice: string): Finding {
  return { check, level: 'danger', message, advice }
}
