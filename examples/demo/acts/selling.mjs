import { bar, line, progress } from '../screen.mjs'

const ITEMS = 100
const TILLS = 4
const BUYERS = 60

/** @typedef {{ item: number | undefined, fence: bigint | undefined, shop: string }} Served */

/**
 * Every shop opens its doors at once, and all of them sell from the same stock.
 *
 * @param {import('../stage.mjs').Stage} stage
 * @param {boolean} locked
 */
async function sell({ shops, warehouse }, locked) {
  await warehouse.write(ITEMS)
  /** @type {Served[]} */
  const served = []
  let sold = 0
  const stops = shops.map((shop) =>
    shop.listen((news) => {
      if (news.news !== 'served') return
      served.push({ item: news.item, fence: news.fence, shop: shop.name })
      if (news.item !== undefined) sold += 1
      progress(`${bar(sold, ITEMS)} ${sold} sold of ${ITEMS}`)
    }),
  )
  const start = performance.now()
  const closed = shops.map((shop) => shop.next('closing-time'))
  for (const shop of shops) shop.tell({ task: 'sell', locked, tills: TILLS, buyers: BUYERS })
  await Promise.all(closed)
  const tookMs = performance.now() - start
  for (const stop of stops) stop()
  const items = served.map(({ item }) => item).filter((item) => item !== undefined)
  return { served, sold, different: new Set(items).size, left: await warehouse.read(), tookMs }
}

/** @type {import('../stage.mjs').Act} */
export async function withoutLock(stage) {
  const { sold, different, left } = await sell(stage, false)
  const tooMany = sold - ITEMS
  line(`  ${sold} buyers were sold an item, but only ${different} different items changed hands`)
  line(`  the warehouse believes that ${left} of ${ITEMS} are left`)
  const claim = `without a lock: ${sold} sold of ${ITEMS}, ${Math.max(0, tooMany)} too many`
  return [{ held: tooMany > 0, claim }]
}

/** @type {import('../stage.mjs').Act} */
export async function withLock(stage) {
  const { served, sold, different, left, tookMs } = await sell(stage, true)
  const inOrder = served.filter(isFenced).toSorted((a, b) => (a.fence < b.fence ? -1 : 1))
  const handOffs = inOrder.filter(({ shop }, n) => n > 0 && shop !== inOrder[n - 1]?.shop).length
  const perSecond = Math.round(handOffs / (tookMs / 1000))
  const fences = new Set(inOrder.map(({ fence }) => fence)).size
  // In the order of the fences each sale lowers the stock by one; otherwise two sales overlapped.
  const items = inOrder.map(({ item }) => item ?? 0)
  const oneByOne = items.every((item, n) => item === Math.max(0, ITEMS - n))
  const buyers = BUYERS * stage.shops.length
  line(`  ${sold} items sold, ${buyers - sold} buyers turned away, ${left} left in the warehouse`)
  line(`  the lock was held ${fences} times, and ${handOffs} times went to another process: ${perSecond}/s`)
  const exact = sold === ITEMS && different === ITEMS && left === 0 && oneByOne
  return [
    { held: exact, claim: `with the lock: ${sold} sold of ${ITEMS}, each item once` },
    {
      held: fences === buyers && handOffs > 0,
      claim: `${fences} holds for ${buyers} buyers, ${handOffs} hand-offs between processes, ${perSecond}/s`,
    },
  ]
}

/**
 * @param {Served} served
 * @returns {served is Served & { fence: bigint }}
 */
function isFenced(served) {
  return served.fence !== undefined
}
