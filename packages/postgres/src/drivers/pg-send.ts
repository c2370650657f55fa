import type { Client } from 'pg'
import type { Row, Statement } from './driver.ts'

const asWritten = { getTypeParser: () => (text: string) => text }

/** Runs one statement on any client of `pg`. */
export async function send(
  client: Pick<Client, 'query'>,
  { name, text }: Statement,
  values: readonly unknown[],
  named: boolean,
): Promise<readonly Row[]> {
  const query = { text, values: [...values], rowMode: 'array' as const, types: asWritten }
  const { rows } = await client.query<(string | null)[]>(
    named && name !== undefined ? { ...query, name } : query,
  )
  return rows
}
