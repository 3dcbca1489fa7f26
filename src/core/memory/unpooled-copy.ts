// Copies buffers out of Node's pool, for bytes that stay in memory for long.

/**
 * Small results of Buffer.from, allocUnsafe and concat are views of a shared block of 64 KB
 * (Buffer.poolSize). A long-lived view keeps the whole block in memory.
 */
export function unpooledCopy(bytes: Uint8Array): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.byteLength);
  own.set(bytes);
  return own;
}
