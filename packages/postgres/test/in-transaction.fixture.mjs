// Locks a name in a transaction and never ends it: `node in-transaction.fixture.mjs URL NAME`
import { lockInTransaction } from '@locks/postgres/transaction'
import { Client } from 'pg'

const [connectionString = '', name = ''] = process.argv.slice(2)
const client = new Client({ connectionString })
await client.connect()
await client.query('BEGIN')
await lockInTransaction(client, name)
console.log('locked')
