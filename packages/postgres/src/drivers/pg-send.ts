import type { Client } from 'pg'
import type { Row, Statement } from './driver.ts'

const asText = (text: string): string => text
const asWritten = { getTypeParser: () => asText }

/** Runs one statement on any client of `pg`. */
export async function send(
  client: Pick<Client, 'query'>,
  { name, text }: Statement,
  values: unknown[],
  named: boolean,
): Promise<readonly Row[]> {
  const query = { name: named ? name : undefined, text, values, rowMode: 'array' as const, types: asWritten }
  return (await client.query<(string | null)[]>(query)).rows
}
