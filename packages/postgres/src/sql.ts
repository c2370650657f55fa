import { createHash } from 'node:crypto'
import type { Statement } from './line.ts'
import type { Place } from './options.ts'

/** Quoted names of everything that belongs to one place. Schema and table were validated; quoting keeps their case. */
export interface Names {
  readonly locks: string
  readonly waiters: string
  readonly position: string
  readonly attempt: string
  readonly passOn: string
  readonly release: string
  readonly withdraw: string
  readonly renew: string
  readonly adopt: string
  readonly inspect: string
  readonly prune: string
  readonly rows: string
  readonly holders: string
  readonly resources: string
}

export function namesOf({ schema, table }: Place): Names {
  const named = (suffix: string): string => `"${schema}"."${table}${suffix}"`
  return {
    locks: named(''),
    waiters: named('_waiters'),
    position: `${table}_waiting`,
    attempt: named('_attempt'),
    passOn: named('_pass_on'),
    release: named('_release'),
    withdraw: named('_withdraw'),
    renew: named('_renew'),
    adopt: named('_adopt'),
    inspect: named('_inspect'),
    prune: named('_prune'),
    rows: named('_rows'),
    holders: named('_holders'),
    resources: `"${schema}".fenced_resources`,
  }
}

/** One prepared statement per text, whoever else uses the same connection. */
export function statement(text: string): Statement {
  return { name: `locks_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`, text }
}

export interface UniqueKeyStatements {
  readonly attempt: Statement
  readonly release: Statement
  readonly withdraw: Statement
  readonly renew: Statement
  readonly adopt: Statement
  readonly inspect: Statement
}

export function uniqueKeyStatements(place: Place): UniqueKeyStatements {
  const to = namesOf(place)
  return {
    attempt: statement(`SELECT * FROM ${to.attempt}($1, $2, $3, $4, $5, $6, $7)`),
    release: statement(`SELECT ${to.release}($1, $2)`),
    withdraw: statement(`SELECT ${to.withdraw}($1, $2)`),
    renew: statement(`SELECT ${to.renew}($1::bytea[], $2::text[], $3::int[], $4::int[])`),
    adopt: statement(`SELECT ${to.adopt}($1, $2, $3, $4, $5, $6)`),
    inspect: statement(`SELECT * FROM ${to.inspect}($1)`),
  }
}

/** For the connection that hears of hand-offs: it holds the key for as long as it lives, so others can tell. */
export function listening(key: string): readonly Statement[] {
  return [
    { name: '', text: `LISTEN ${channelOf(key)}` },
    { name: '', text: 'SELECT pg_advisory_lock($1::bigint)' },
  ]
}

function channelOf(key: string): string {
  if (!/^\d{1,19}$/.test(key)) throw new Error('a listener key is a number')
  return `"locks_${key}"`
}
