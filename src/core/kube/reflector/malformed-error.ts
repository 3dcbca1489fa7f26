// The error for input that no API server sends.

/** The server sent something that is no object or event of Kubernetes. */
export class MalformedError extends Error {
  override readonly name = 'MalformedError';
}
