// Cuts the bytes of an HTTP/2 connection (RFC 9113 section 4.1) into slices of a few frames, so that
// no slice costs much to process. A frame of 9 bytes can cost as much as a request.

/** RFC 9113 section 3.4: what a client sends before its first frame. */
const prefaceBytes = 24;
const frameHeadBytes = 9;
const frameLengthBytes = 3;

export class FrameSlices {
  /** Bytes until the end of the current frame, without its head. */
  #bodyLeft = prefaceBytes;
  #headSeen = 0;
  #length = 0;

  /** How many of these bytes hold at most so many frames, begun ones included. Bytes that follow come next. */
  next(bytes: Uint8Array, maxFrames: number): number {
    let at = 0;
    let frames = 0;
    while (at < bytes.length) {
      if (this.#bodyLeft > 0) {
        const length = Math.min(this.#bodyLeft, bytes.length - at);
        this.#bodyLeft -= length;
        at += length;
        continue;
      }
      if (this.#headSeen === 0 && frames++ === maxFrames) break;
      if (this.#headSeen < frameLengthBytes) this.#length = this.#length * 256 + (bytes[at] ?? 0);
      at++;
      if (++this.#headSeen < frameHeadBytes) continue;
      this.#bodyLeft = this.#length;
      this.#headSeen = 0;
      this.#length = 0;
    }
    return at;
  }
}
