export const declared = {
  adapter: '@locks/memory',
  options: {
    /** `memory:` or `memory:name`. Clients of one name share a store. */
    url: {
      kind: 'text',
      matches: 'memory:[\\w.-]*',
      must: 'be memory: or memory:name (letters, digits, _ . -)',
      default: 'memory:',
    },
  },
} as const
