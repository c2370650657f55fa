/** An adapter whose own client is not installed. */
const client = 'a-peer-that-nobody-installed'
await import(client)

export function fromConfig() {
  return () => undefined
}
