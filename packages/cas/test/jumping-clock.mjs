// Preloaded into a process, this makes its wall clock jump back and forth by an hour.
const HOUR = 3_600_000
const { now } = Date
let jumps = 0
Date.now = () => now() + (jumps % 2 === 0 ? HOUR : -HOUR)
setInterval(() => (jumps += 1), 20).unref()
