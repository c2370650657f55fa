import { shownUrl } from '@locks/sql'
import { expect, test } from 'vitest'

const at = { user: 'app', host: 'db', port: 5432, database: 'shop', password: 'hunter2' }

test.each([
  [at, {}, 'postgres://app@db:5432/shop'],
  [{ ...at, port: undefined }, { schema: undefined }, 'postgres://app@db/shop'],
  [at, { table: 'mine' }, "'postgres://app@db:5432/shop?table=mine'"],
  [{ ...at, user: 'a b:c' }, {}, 'postgres://a%20b%3Ac@db:5432/shop'],
  [{ ...at, user: '', host: '::1' }, {}, 'postgres://[::1]:5432/shop'],
  [{ ...at, user: "o'neil" }, {}, 'URL'],
  [{ ...at, host: '$(reboot)' }, {}, "'postgres://app@$(reboot):5432/shop'"],
  [{ ...at, host: undefined }, {}, 'URL'],
  [{ ...at, database: '' }, {}, 'URL'],
  [{}, {}, 'URL'],
])('%j with %j is shown as %s', (address, options, shown) => {
  expect(shownUrl('postgres', address, options)).toBe(shown)
})
