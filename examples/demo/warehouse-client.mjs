/**
 * What a shop can ask of the warehouse. Reading and writing are two requests, so two shops that do
 * both at the same time lose an update: as with any file, table or service.
 *
 * @param {number} port
 */
export function warehouseAt(port) {
  /**
   * @param {bigint | undefined} fence
   * @param {RequestInit} [init]
   */
  async function ask(fence, init) {
    const query = fence === undefined ? '' : `?fence=${fence}`
    const response = await fetch(`http://127.0.0.1:${port}/stock${query}`, init)
    const { status } = response
    /** @type {unknown} */
    const answer = await response.json()
    return { status, answer: typeof answer === 'object' && answer !== null ? answer : {} }
  }

  return {
    /**
     * With a fence, also registers it, so that every earlier holder is refused from now on.
     *
     * @param {bigint} [fence]
     * @returns {Promise<number>} items left
     */
    async read(fence) {
      const { status, answer } = await ask(fence)
      if (status !== 200 || !('left' in answer))
        throw new Error(`the warehouse failed: ${JSON.stringify(answer)}`)
      return Number(answer.left)
    },

    /**
     * @param {number} left
     * @param {bigint} [fence]
     * @returns {Promise<string | undefined>} why the warehouse refused it, if it did
     */
    async write(left, fence) {
      const { status, answer } = await ask(fence, { method: 'PUT', body: String(left) })
      if (status === 200) return undefined
      if (status === 409 && 'refused' in answer) return String(answer.refused)
      throw new Error(`the warehouse failed: ${JSON.stringify(answer)}`)
    },
  }
}
