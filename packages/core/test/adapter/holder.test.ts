import { describe, expect, test } from 'vitest'
import { readHolder, readMetadata, writeHolder } from '../../src/adapter/holder.ts'

const metadata = { host: 'web-1', pid: 42, label: 'nightly import' }

describe('a holder as text', () => {
  test('is read as it was written, in ASCII', () => {
    const odd = { owner: 'Zoë \0 🔒', metadata: { ...metadata, label: 'täglich' } }
    expect(readHolder(writeHolder(odd))).toEqual(odd)
    expect(writeHolder(odd)).toMatch(/^[ -~]*$/)
    expect(readHolder(writeHolder({ metadata }))).toEqual({ metadata })
  })

  test.each([
    ['beside the owner', JSON.stringify({ owner: 'me', ...metadata })],
    ['under a key of its own', JSON.stringify({ owner: 'me', metadata })],
    [
      'with more than is known',
      JSON.stringify({ owner: 'me', metadata: { ...metadata, more: 1 }, other: [] }),
    ],
  ])('has its metadata %s', (_, text) => {
    expect(readHolder(text)).toEqual({ owner: 'me', metadata })
  })

  test.each(['', 'null', '7', '"text"', '[]', '{', '{"owner":7,"host":"h"}', '{"metadata":null}'])(
    'says nothing when another program wrote %j',
    (text) => {
      expect(readHolder(text)).toEqual({})
    },
  )

  test('metadata without host and pid is none, and a label that is no text is left out', () => {
    expect(readMetadata({ host: 'h' })).toBeUndefined()
    expect(readMetadata({ host: 'h', pid: '1' })).toBeUndefined()
    expect(readMetadata({ host: 'h', pid: 1, label: 3 })).toEqual({ host: 'h', pid: 1 })
  })
})
