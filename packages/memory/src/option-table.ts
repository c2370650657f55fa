export const declared = {
  adapter: '@locks/memory',
  options: {
    url: {
      kind: 'text',
      matches: 'memory:[\\w.-]*',
      must: 'be memory: or memory:name (letters, digits, _ . -)',
      default: 'memory:',
      doc: '`memory:` or `memory:name`. Clients of one name share a store.',
    },
  },
} as const
