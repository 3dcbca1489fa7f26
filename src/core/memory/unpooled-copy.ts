// core/memory is about what things cost that are kept for long.

/**
 * For bytes that outlive the moment. What Buffer.from, alloc and concat make of a few KB is a window
 * on a block of 64 KB that it shares with its neighbours (Buffer.poolSize): kept for long, it keeps
 * the whole block, although all else in it is long forgotten.
 */
export function unpooledCopy(bytes: Uint8Array): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.byteLength);
  own.set(bytes);
  return own;
}
