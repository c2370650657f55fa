import type { HistoryEvent, Stall } from '@locks/core/conformance'
import { hash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { serverLogs } from './services/logs.ts'

/** Where a failed test leaves what there is to know about it. Emptied when a run begins. */
export const evidenceFolder: string =
  process.env['LOCKS_TEST_EVIDENCE'] ?? join(import.meta.dirname, '../.cache/test-evidence')

const histories = new Map<string, readonly HistoryEvent[]>()

/** Kept until the test with this id has ended. */
export function noteHistory(test: string, events: readonly HistoryEvent[]): void {
  histories.set(test, events)
}

export function forgetHistory(test: string): void {
  histories.delete(test)
}

/** An error of a test, as vitest has it. */
interface Problem {
  readonly message: string
  readonly stack?: string | undefined
  /** Expected and received, where it was an assertion about values. */
  readonly diff?: string | undefined
}

interface Failed {
  readonly id: string
  readonly name: string
  readonly errors: readonly Problem[]
  readonly stalls: readonly Stall[]
}

/** Writes errors, stalls, the end of the servers' logs and the recorded history to a file. Returns its path. */
export async function keepEvidence({ id, name, errors, stalls }: Failed): Promise<string> {
  const history = histories.get(id) ?? []
  const sections: [string, string][] = [
    ['Errors', errors.map(inFull).join('\n\n')],
    [
      'Stalls',
      stalls.map(({ who, ms, longestMs }) => `${who}: ${ms} ms, ${longestMs} ms at once`).join('\n'),
    ],
    ['Servers', await serverLogs()],
    ['History', history.map((event) => JSON.stringify(event, writeBigint)).join('\n')],
  ]
  await mkdir(evidenceFolder, { recursive: true })
  const readable = name.replaceAll(/[^\w-]+/g, '-').slice(0, 100)
  // Names of several tests may begin alike.
  const file = join(evidenceFolder, `${readable}-${hash('sha1', name).slice(0, 8)}.txt`)
  await writeFile(
    file,
    [name, ...sections.map(([title, text]) => `## ${title}\n${text || 'none'}`)].join('\n\n'),
  )
  return file
}

function inFull({ stack, message, diff }: Problem): string {
  const lines = [stack ?? message, ...(diff === undefined ? [] : [stripVTControlCharacters(diff)])]
  return lines.join('\n\n')
}

function writeBigint(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}
