// Sells TURNS times, WORKERS at a time: `node run.mjs pg.mjs URL TURNS WORKERS`
const [library = '', url = '', turns = '', workers = ''] = process.argv.slice(2)
/** @type {{ open: (url: string) => Promise<{ sell(): Promise<unknown>; close(): Promise<unknown> }> }} */
const { open } = await import(`./${library}`)
const shop = await open(url)
let left = Number(turns)
await Promise.all(
  Array.from({ length: Number(workers) }, async () => {
    while (left-- > 0) await shop.sell()
  }),
)
await shop.close()
