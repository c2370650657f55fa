import { lockInTransaction } from '@locks/postgres/transaction'
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '../generated/postgres/index.js'

/** @param {string} url */
export function open(url) {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })
  // While it waits for the lock, the time of the transaction runs.
  const options = { maxWait: 60_000, timeout: 60_000 }

  const sell = () =>
    prisma.$transaction(async (tx) => {
      await lockInTransaction(tx, 'stock:apples', { waitMs: 50_000 })
      const { amount } = await tx.stock.findFirstOrThrow()
      await tx.stock.updateMany({ data: { amount: amount - 1 } })
    }, options)

  return { sell, close: () => prisma.$disconnect() }
}
