import type { Frames, Shift } from './fault-proxy-contract.ts'

/** Splits the bytes of one connection into replies. */
export class Replies {
  readonly #split: (bytes: Buffer) => readonly Buffer[]
  /** How much of the incomplete reply was passed on. */
  #passed = 0
  #last: Buffer | undefined

  constructor(frames: Frames | undefined) {
    this.#split = frames?.() ?? ((bytes) => [bytes])
  }

  /** Records bytes that are passed on unchanged. */
  pass(bytes: Buffer): Buffer {
    let size = this.#passed + bytes.length
    for (const frame of this.#split(bytes)) {
      size -= frame.length
      this.#last = frame
    }
    this.#passed = size
    return bytes
  }

  /**
   * What to pass on instead of `bytes`: whole replies, the first of them shifted. A reply that was passed on in part is
   * left unchanged.
   */
  shift(bytes: Buffer, shift: Shift): { readonly out: Buffer; readonly shifted: boolean } {
    const out: Buffer[] = []
    let shifted = false
    for (const frame of this.#split(bytes)) {
      if (this.#passed > 0) out.push(frame.subarray(this.#passed))
      else if (shifted) out.push(frame)
      else {
        shifted = true
        if (shift === 'duplicate') out.push(frame, frame)
        else if (shift === 'insert') out.push(this.#last ?? frame, frame)
      }
      this.#passed = 0
      this.#last = frame
    }
    return { out: Buffer.concat(out), shifted }
  }
}
