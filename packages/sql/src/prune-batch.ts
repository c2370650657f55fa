/** How many names one statement deletes: few enough that it holds their row locks only briefly. */
export const PRUNE_BATCH = 500
