// Locks a name in a transaction and never ends it: `node in-transaction.fixture.mjs URL NAME`
import { lockInTransaction } from '@locks/mysql/transaction'
import { createConnection } from 'mysql2/promise'

const [url = '', name = ''] = process.argv.slice(2)
const connection = await createConnection(url)
await connection.beginTransaction()
await lockInTransaction(connection, name)
console.log('locked')
