import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createRecorder, readHistory, type HistoryEntry } from '../../src/conformance/history.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'locks-history-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

const fileOf = (process: string): string => join(directory, `${process}.jsonl`)
const act = { name: 'order', task: 'a' }

describe('recorder', () => {
  test('an event is in the file when record returns, with every field intact', () => {
    const fence = 2n ** 64n + 1n
    const entries: HistoryEntry[] = [
      { t: 1, type: 'acquire-called', ...act },
      { t: 2, type: 'granted', ...act, owner: 'me', fence, deadline: 30.25 },
      { t: 3, type: 'renewed', ...act, fence, deadline: Infinity },
      { t: 4, type: 'protected', ...act, fence },
      { t: 5, type: 'release-called', ...act, fence },
      { t: 6, type: 'release-failed', ...act, fence, code: 'LOCK_UNAVAILABLE' },
      { t: 7, type: 'released', ...act, fence },
      { t: 8, type: 'lost', ...act, fence },
      { t: 9, type: 'acquire-failed', ...act, outcome: 'info', code: 'LOCK_UNAVAILABLE' },
      { t: 10, type: 'resource-accepted', name: 'order', fence },
      { t: 11, type: 'resource-rejected', name: 'order', fence },
      { t: 12, type: 'fault', label: 'cut', class: 'F', phase: 'begin' },
      { t: 13, type: 'fault', label: 'cut', class: 'F', phase: 'end', name: 'order' },
      { t: 14, type: 'crash', victim: 'p2' },
    ]
    const recorder = createRecorder(fileOf('p1'), 'p1')
    for (const entry of entries) recorder.record(entry)
    expect(readHistory([fileOf('p1')])).toEqual(entries.map((entry) => ({ ...entry, process: 'p1' })))
    recorder.close()
  })

  test('an event without a time gets the time of its recording', () => {
    const recorder = createRecorder(fileOf('p1'), 'p1')
    const before = recorder.now()
    recorder.record({ type: 'acquire-called', ...act })
    const after = recorder.now()
    recorder.close()
    const [event] = readHistory([fileOf('p1')])
    expect(event?.t).toBeGreaterThanOrEqual(before)
    expect(event?.t).toBeLessThanOrEqual(after)
  })

  test('its clock is that of other processes of the host', () => {
    const recorder = createRecorder(fileOf('p1'), 'p1')
    const before = recorder.now()
    const print = 'process.stdout.write(String(process.hrtime.bigint()))'
    const there = Number(execFileSync(process.execPath, ['-e', print])) / 1e6
    expect(there).toBeGreaterThan(before)
    expect(there).toBeLessThan(recorder.now())
    recorder.close()
  })

  test('a deadline read across a pause is read again', () => {
    const recorder = createRecorder(fileOf('p1'), 'p1')
    const end = recorder.now() + 1_000
    let readings = 0
    const deadline = recorder.deadline(() => {
      readings += 1
      const pausedUntil = recorder.now() + (readings === 1 ? 5 : 0)
      while (recorder.now() < pausedUntil);
      return end - recorder.now()
    })
    recorder.close()
    expect(readings).toBeGreaterThan(1)
    expect(deadline).toBeLessThanOrEqual(end)
    expect(deadline).toBeGreaterThan(end - 1)
  })

  test('a file is never continued, nor written to after close', () => {
    const recorder = createRecorder(fileOf('p1'), 'p1')
    recorder.close()
    recorder.close()
    expect(() => createRecorder(fileOf('p1'), 'p1')).toThrow('EEXIST')
    expect(() => recorder.record({ type: 'crash', victim: 'p2' })).toThrow('closed')
  })
})

describe('readHistory', () => {
  function write(process: string, times: readonly number[]): string {
    const recorder = createRecorder(fileOf(process), process)
    for (const [index, t] of times.entries()) recorder.record({ t, type: 'crash', victim: String(index) })
    recorder.close()
    return fileOf(process)
  }

  test('merges files by time and keeps the order of one file where times are equal', () => {
    const files = [write('p1', [1, 5, 5, 9]), write('p2', [2, 8]), write('p3', [])]
    const merged = readHistory(files)
    expect(merged.map(({ t, process }) => `${process}@${t}`)).toEqual([
      'p1@1',
      'p2@2',
      'p1@5',
      'p1@5',
      'p2@8',
      'p1@9',
    ])
    expect(merged.filter(({ t }) => t === 5)).toMatchObject([{ victim: '1' }, { victim: '2' }])
  })

  test.each([
    '{"t":3,"process":"p1","type":"cra',
    '{',
    '{"t":3,"process":"p1","type":"crash","victim":"p2"}',
  ])('drops a last line torn by a kill: %s', (torn) => {
    const file = write('p1', [1, 2])
    appendFileSync(file, torn)
    expect(readHistory([file]).map(({ t }) => t)).toEqual([1, 2])
  })

  test.each([
    '{"t":1,"process":"p1","type":"cra',
    'null',
    '{"t":1,"process":"p1","type":"unheard-of"}',
    '{"t":"1","process":"p1","type":"crash","victim":"p2"}',
    '{"t":1,"process":"p1","type":"crash"}',
    '{"t":1,"process":"p1","type":"resource-accepted","name":"n","fence":7}',
    '{"t":1,"process":"p1","type":"resource-accepted","name":"n","fence":"seven"}',
    '{"t":1,"process":"p1","type":"fault","label":"cut","class":"G","phase":"begin"}',
  ])('refuses any other line that is no event, by file and line: %s', (line) => {
    const file = fileOf('p1')
    writeFileSync(file, `{"t":0,"process":"p1","type":"crash","victim":"p2"}\n${line}\n`)
    expect(() => readHistory([file])).toThrow(`${file}:2 is not a history event`)
  })
})
