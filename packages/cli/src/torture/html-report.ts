import type { TortureResult } from './options.ts'

export function htmlReport(backend: string, result: TortureResult): string {
  return `${backend} ${result.seed}`
}
