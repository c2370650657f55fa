import { adapter } from './edits.ts'
import type { Mutant } from './mutant.ts'

/** Bugs of how a store owns a name, seen in lock libraries, each with the rule that must notice it. */
export const storeMutants: readonly Mutant[] = [
  // What the store owns.
  {
    bug: 'no exclusion check',
    rule: 'ATOM-1',
    edits: [
      adapter(
        'if (held === undefined)\n                return grantOf',
        'if (true)\n                return grantOf',
      ),
    ],
  },
  {
    bug: 'release without owner check',
    rule: 'OWN-1',
    edits: [
      adapter(
        'const held = blockerOf(entry)?.attemptId === attemptId;',
        'const held = blockerOf(entry) !== undefined;',
      ),
    ],
  },
  {
    bug: 'release of an expired lease frees the successor',
    rule: 'OWN-3',
    edits: [
      adapter(
        'async release({ name, attemptId }, keepMs',
        'async release({ name, attemptId, fence }, keepMs',
      ),
      adapter(
        'const held = blockerOf(entry)?.attemptId === attemptId;',
        'const held = blockerOf(entry)?.attemptId === attemptId || fence < entry.held?.fence;',
      ),
    ],
  },
  {
    bug: 'a release of a free name counts as released',
    rule: 'OWN-7',
    edits: [
      adapter(
        "if (entry === undefined)\n                return 'not-held';\n            const held",
        "if (entry === undefined)\n                return 'released';\n            const held",
      ),
    ],
  },
  {
    bug: 'a broken holder that finds the name free again is told that it released it',
    rule: 'OWN-11',
    edits: [
      adapter(
        "if (entry === undefined)\n                return 'not-held';\n            const held",
        "if (entry === undefined)\n                return 'released';\n            const held",
      ),
    ],
  },
  {
    bug: 'renew without owner check',
    rule: 'OWN-2',
    edits: [adapter('|| !isHolder(held, grant.attemptId))', ')')],
  },
  {
    bug: 'a renewal brings an expired lease back',
    rule: 'RENEW-12',
    edits: [adapter('!isHolder(held, grant.attemptId)', 'held.attemptId !== grant.attemptId')],
  },
  {
    bug: 'no ttl',
    rule: 'CRASH-4',
    edits: [
      adapter(
        'const expiresAt = Math.max(now + ttlMs, held?.expiresAt ?? 0);',
        'const expiresAt = Infinity;',
      ),
    ],
  },
  {
    bug: 'a waiter sleeps past the end of who was served before it',
    rule: 'WAIT-15',
    edits: [adapter('next?.wake.wakeBy(entry.held.blockedUntil)', 'void 0')],
  },
  {
    bug: 'a name is free 300 ms late',
    rule: 'CRASH-4',
    edits: [adapter('clock.now() < entry.held.blockedUntil', 'clock.now() < entry.held.blockedUntil + 300')],
  },
  {
    bug: 'lock-delay ignored',
    rule: 'CRASH-5',
    edits: [adapter('expiresAt + lockDelayMs', 'expiresAt')],
  },
  {
    bug: 'own lost reply blocks the retry',
    rule: 'LOST-1',
    edits: [
      adapter('if (isHolder(held, attemptId)) {', 'if (false) {'),
      adapter(
        'if (held.attemptId === attemptId)\n                return grantOf',
        'if (false)\n                return grantOf',
      ),
    ],
  },
  {
    bug: 'the lock-delay of its own lost grant keeps an attempt out',
    rule: 'LOST-19',
    edits: [
      adapter(
        'if (held.attemptId === attemptId)\n                return grantOf',
        'if (false)\n                return grantOf',
      ),
    ],
  },
  {
    bug: 'a repeated attempt is granted anew, also while its own hold lasts',
    rule: 'LOST-2',
    edits: [adapter('if (isHolder(held, attemptId)) {', 'if (false) {')],
  },
  {
    bug: 'idempotent retry without a fresh ttl',
    rule: 'LOST-3',
    edits: [adapter('entry.held = { ...held, ...term(request, held) };', '')],
  },
  {
    bug: 'an older renewal that arrives late shortens the hold',
    rule: 'LOST-17',
    edits: [
      adapter('Math.max(now + ttlMs, held?.expiresAt ?? 0)', 'now + ttlMs'),
      adapter('Math.max(expiresAt + lockDelayMs, held?.blockedUntil ?? 0)', 'expiresAt + lockDelayMs'),
    ],
  },
  {
    bug: 'a longer ttl is kept by all later renewals',
    rule: 'RENEW-19',
    edits: [
      adapter(
        'const expiresAt = Math.max(now + ttlMs, held?.expiresAt ?? 0);',
        'const longestMs = Math.max(ttlMs, held?.longestMs ?? 0);\nconst expiresAt = now + longestMs;',
      ),
      adapter('grantedAt: now,', 'grantedAt: now, longestMs,'),
    ],
  },
  {
    bug: 'last come, first served',
    rule: 'WAIT-11',
    edits: [
      adapter(
        'const [first] = entry.queue.values();',
        'const [first] = [...entry.queue.values()].reverse();',
      ),
    ],
  },
  {
    bug: 'a lease can be resumed twice',
    rule: 'HAND-2',
    edits: [adapter('if (!isHolder(held, from.attemptId) && !isHolder(held, attemptId))', 'if (false)')],
  },
  {
    bug: 'names that differ in case are one name',
    rule: 'NAME-2',
    edits: [
      adapter(
        'let entry = entries.get(name);',
        'name = name.toLowerCase();\n        let entry = entries.get(name);',
      ),
    ],
  },

  // Fences.
  { bug: 'constant fence', rule: 'FENCE-1', edits: [adapter('++store.lastFence;', '1n;')] },
  {
    bug: 'random fence',
    rule: 'FENCE-1',
    edits: [adapter('++store.lastFence;', 'BigInt(Math.floor(Math.random() * 2 ** 40));')],
  },
  {
    bug: 'fence starts again when the name was idle, as a sequence node does under a new parent',
    rule: 'FENCE-10',
    edits: [adapter('++store.lastFence;', '(entry.last = (entry.last ?? 0n) + 1n);')],
  },
  {
    bug: 'fence drawn before the wait',
    rule: 'FENCE-8',
    edits: [
      adapter(
        'const { name, attemptId } = request;\n            const entry = entryOf',
        'const { name, attemptId } = request;\n            request.early ??= ++store.lastFence;\n            const entry = entryOf',
      ),
      adapter('const fence = ++store.lastFence;', 'const fence = request.early;'),
    ],
  },
  {
    bug: 'fence read back from the shared counter',
    rule: 'FENCE-11',
    edits: [
      adapter(
        'entry.held = { ...held, ...term(request, held) };\n                return grantOf(request, held);',
        'entry.held = { ...held, ...term(request, held) };\n                return grantOf(request, { fence: store.lastFence });',
      ),
    ],
  },
  {
    bug: 'the fences of a pruned name begin anew',
    rule: 'FENCE-12',
    edits: [
      adapter(
        'async release({ name, attemptId }, keepMs = 0) {',
        `async prune() {
            store.lastFence = 0n;
            return { pruned: 1, more: false };
        },
        async release({ name, attemptId }, keepMs = 0) {`,
      ),
    ],
  },
  {
    bug: 'prune drops what is held',
    rule: 'FENCE-12',
    edits: [
      adapter(
        'async release({ name, attemptId }, keepMs = 0) {',
        `async prune() {
            entries.clear();
            return { pruned: 1, more: false };
        },
        async release({ name, attemptId }, keepMs = 0) {`,
      ),
    ],
  },
]
