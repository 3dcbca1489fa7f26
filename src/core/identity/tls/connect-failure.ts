// Plain-English texts for connection errors. Pure.

const words: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    ECONNREFUSED: 'connection refused',
    ECONNRESET: 'connection reset',
    EHOSTUNREACH: 'no route to its address',
    ENETUNREACH: 'no route to its network',
    ETIMEDOUT: 'connection timed out',
    ENOTFOUND: 'its DNS name does not exist',
    EAI_AGAIN: 'its DNS lookup failed',
  }),
);

/** Half a sentence, without its full stop. */
export function inWords(cause: NodeJS.ErrnoException): string {
  return words.get(cause.code ?? '') ?? cause.message;
}
