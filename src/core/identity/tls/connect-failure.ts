// Why a connection could not be made, for people. Pure.

const words: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    ECONNREFUSED: 'nobody listens there',
    ECONNRESET: 'it broke the connection off',
    EHOSTUNREACH: 'there is no way to its address',
    ENETUNREACH: 'there is no way to its network',
    ETIMEDOUT: 'it does not answer',
    ENOTFOUND: 'its name is not known',
    EAI_AGAIN: 'its name cannot be looked up now',
  }),
);

/** Half a sentence, without its full stop. */
export function inWords(cause: NodeJS.ErrnoException): string {
  return words.get(cause.code ?? '') ?? cause.message;
}
