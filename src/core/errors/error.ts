// The one error taxonomy of Hansa.
//
// An error that a caller must tell apart has a stable code: here, or in the plane that raises it
// (plane-errors.ts). Each wire (HTTP, gRPC, exit codes) maps the codes of this file once, in its own
// folder. Anything else is internal: its cause goes to the log and never to the caller.

/** The codes of this file, which every wire maps. */
export type CoreErrorCode = keyof typeof errorCatalog;

/** The codes of the planes, as keys. A plane adds its own by merging this interface; see plane-errors.ts. */
// oxlint-disable-next-line no-empty-interface, no-empty-object-type -- planes fill it
export interface PlaneErrorCodes {}

export type ErrorCode = CoreErrorCode | keyof PlaneErrorCodes;

/** What `hansa explain CODE` prints: what it means, and what to do about it. */
export interface ErrorExplanation {
  readonly meaning: string;
  readonly remedy: string;
}

export const errorCatalog = {
  HANSA_BAD_REQUEST: {
    meaning:
      'The request could not be understood: malformed JSON or YAML, a wrong kind, or a parameter out of range.',
    remedy: 'Correct what the message names and send the request again.',
  },
  HANSA_INVALID: {
    meaning:
      'The object was understood, but one or more of its fields are not acceptable. Each is listed with its path.',
    remedy:
      'Correct every field that the message lists. `kubectl explain KIND.spec` or `hansa explain KIND` tells what is accepted.',
  },
  HANSA_LIMIT: {
    meaning: 'There are as many objects of this kind as the site is set to hold.',
    remedy:
      'Delete one that is not needed, or start the server with the higher limit that the message names.',
  },
  HANSA_NOT_FOUND: {
    meaning: 'There is no such object or path.',
    remedy: 'Check the spelling of kind and name with `hansa get KIND`.',
  },
  HANSA_ALREADY_EXISTS: {
    meaning: 'An object of this name exists already.',
    remedy: 'Choose another name, or use `hansa apply` to change the one that exists.',
  },
  HANSA_CONFLICT: {
    meaning:
      'The object was changed by someone else since it was read, or another field manager owns a field.',
    remedy:
      'Read the object again and repeat the change; for apply, use --force-conflicts to take the fields over.',
  },
  HANSA_APPLY_MISMATCH: {
    meaning:
      'The configuration of a server-side apply does not fit the schema of the kind: an undeclared field, a wrong type, or list items that cannot be told apart.',
    remedy: 'Correct the field that the message names; `kubectl explain KIND` tells what is there.',
  },
  HANSA_EXPIRED: {
    meaning: 'The resourceVersion or continue token is older than the history that the site keeps.',
    remedy: 'List again and go on from the resourceVersion of that list.',
  },
  HANSA_UNAUTHENTICATED: {
    meaning:
      'The caller presented no credential, or one that is expired, revoked or not of this trust domain.',
    remedy: 'Run `hansa login`, or make a new token with `hansa access token create`.',
  },
  HANSA_FORBIDDEN: {
    meaning: 'The caller is known, but no role allows this.',
    remedy:
      'Ask an administrator for a role that allows the verb on this kind; `hansa access list` shows who has what.',
  },
  HANSA_METHOD_NOT_ALLOWED: {
    meaning: 'The path exists, but does not support this method.',
    remedy: 'Use one of the verbs that `kubectl api-resources -o wide` lists for the kind.',
  },
  HANSA_NOT_ACCEPTABLE: {
    meaning: 'None of the media types that the caller accepts can be produced.',
    remedy: 'Accept application/json or application/yaml.',
  },
  HANSA_UNSUPPORTED_MEDIA_TYPE: {
    meaning: 'The body is of a media type that this path does not read.',
    remedy:
      'Send application/json or application/yaml, or for PATCH one of the patch types that the message lists.',
  },
  HANSA_TOO_LARGE: {
    meaning: 'A body, header, value or list is larger than the limit.',
    remedy: 'Send less at once. The message names the limit.',
  },
  HANSA_TOO_MANY_REQUESTS: {
    meaning: 'The caller, or all callers together, sent more than the site takes at once.',
    remedy: 'Wait as long as Retry-After says and try again.',
  },
  HANSA_TIMEOUT: {
    meaning: 'The request was not complete, or could not be answered, in time.',
    remedy: 'Try again; if it persists, look at `hansa doctor`.',
  },
  HANSA_UNAVAILABLE: {
    meaning:
      'The site is starting, draining, a part of it is not ready, or what the request depends on is suspended.',
    remedy:
      'Try again shortly; /readyz and `hansa doctor` tell which part is not ready. The message names what is suspended.',
  },
  HANSA_STORE_FULL: {
    meaning: 'The disk under the data folder is full. Nothing was changed; reads go on.',
    remedy: 'Free some space. Writes work again by themselves.',
  },
  HANSA_STORE_CORRUPT: {
    meaning: 'The store holds something that this site did not write, or not whole.',
    remedy: 'Do not write to it. Run `hansa doctor` and restore from a backup.',
  },
  HANSA_STORE_NEWER: {
    meaning: 'The data folder was written by a newer Hansa than this one.',
    remedy: 'Start the newer version, or use another data folder.',
  },
  HANSA_STORE_LOCKED: {
    meaning: 'Another daemon uses this data folder.',
    remedy: 'Stop the other daemon, or start this one with another --data-dir.',
  },
  HANSA_FENCED: {
    meaning: 'The writer held a lease that someone else has taken since.',
    remedy: 'Nothing: the new holder goes on with the work.',
  },
  HANSA_SEAL_BROKEN: {
    meaning: 'A sealed secret could not be opened: another key file, or the record was changed.',
    remedy: 'Start with the --key-file with which the secret was sealed.',
  },
  HANSA_CERTIFICATE_INVALID: {
    meaning: 'A certificate breaks a rule of X.509 or of X.509-SVID. The message names the rule.',
    remedy: 'Ask the issuer of the certificate for one that follows the rule.',
  },
  HANSA_JWT_INVALID: {
    meaning: 'A JWT-SVID breaks a rule of JWT-SVID or of JWT. The message names the rule.',
    remedy:
      'Ask for a fresh token, for the audience that is to accept it; where its key is unknown, see whether the bundle of its trust domain is fresh (`hansa trust status`).',
  },
  HANSA_BUNDLE_INVALID: {
    meaning:
      'A SPIFFE bundle cannot be believed: it cannot be read, holds no authority, is older than one that was seen, or holds an authority of this site.',
    remedy:
      'Ask the operator of the other trust domain. The last good bundle stays in use meanwhile.',
  },
  HANSA_CLOCK_DOUBTFUL: {
    meaning:
      'By the clock all X.509 authorities of the site have expired, which does not happen while a site runs: the clock is wrong, or the site was down for a long time.',
    remedy:
      'Set the clock right and start again: nothing was changed. If the clock is right, start with --ca-clock-trusted-until and a time just ahead of now.',
  },
  HANSA_AUTHORITY_STATE: {
    meaning: 'What was asked is not possible in the phase that the authority is in.',
    remedy: 'See `hansa trust rotate status`; the message names what is possible.',
  },
  HANSA_AUDIT_INVALID: {
    meaning:
      'The audit log does not verify: a record was changed, removed or added outside of the site.',
    remedy: 'Keep the log as evidence, and compare it with an export or checkpoint that you trust.',
  },
  HANSA_CONFIG_INVALID: {
    meaning: 'The configuration has a value that is not accepted.',
    remedy:
      'Correct the key that the message names; `hansa config show` tells where each value came from.',
  },
  HANSA_USAGE: {
    meaning: 'The command line could not be understood.',
    remedy: 'See --help of the command.',
  },
  HANSA_UNREACHABLE: {
    meaning: 'The site did not answer at the address given.',
    remedy: 'Check that it runs (`hansa server`), and --data-dir or --site.',
  },
  HANSA_PEER_UNTRUSTED: {
    meaning:
      'Whoever answered at the address of the peer is not the site that was expected: its keys or its trust domain are others.',
    remedy:
      'Somebody may stand between the two sites. Compare the fingerprint with the operator of the peer before you try again.',
  },
  HANSA_CANCELLED: {
    meaning: 'The user answered no to a question. Nothing was changed.',
    remedy: 'Run the command again and answer yes, or add --yes.',
  },
  HANSA_CONDITION_NOT_MET: {
    meaning: 'What was waited for did not happen in time.',
    remedy:
      'Look at the conditions in the status of the object (`hansa describe`), or wait longer with --timeout.',
  },
  HANSA_UNHEALTHY: {
    meaning: 'A check found a problem. The output names each with how to mend it.',
    remedy: 'Follow the advice below each line marked ✗.',
  },
  HANSA_INTERNAL: {
    meaning: 'A fault of Hansa itself. The cause is in the log of the site.',
    remedy: 'Report it with the lines of the log around the time it happened.',
  },
} as const satisfies Record<string, ErrorExplanation>;

/** One offending field, in the words and the shape of a Kubernetes `StatusCause`. */
export interface Cause {
  /** For example FieldValueInvalid, FieldValueRequired, FieldManagerConflict. */
  readonly reason: string;
  readonly message: string;
  readonly field?: string;
}

export interface ErrorDetails {
  /** Which object the error is about, as in a Kubernetes `StatusDetails`. */
  readonly group?: string;
  readonly kind?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly causes?: readonly Cause[];
  readonly retryAfterSeconds?: number;
  /** With HANSA_EXPIRED of a chunked list: goes on without consistency. Carried in the metadata of a Status. */
  readonly continueToken?: string;
}

export interface ErrorOptions {
  readonly cause?: unknown;
  readonly details?: ErrorDetails;
}

export class HansaError extends Error {
  override readonly name = 'HansaError';
  readonly code: ErrorCode;
  /** The code by which every wire answers: `code`, or the one that a code of a plane is like. */
  readonly general: CoreErrorCode;
  readonly details: ErrorDetails | undefined;

  constructor(
    /** Another error, to say the same with other words. */
    code: CoreErrorCode | Pick<HansaError, 'code' | 'general'>,
    message: string,
    options: ErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = typeof code === 'string' ? code : code.code;
    this.general = typeof code === 'string' ? code : code.general;
    this.details = options.details;
  }
}

/** The one gate for caught values: what is not ours already becomes an opaque internal error. */
export function toHansaError(caught: unknown): HansaError {
  if (caught instanceof HansaError) return caught;
  return new HansaError(
    'HANSA_INTERNAL',
    'An internal error occurred. Its cause is in the log of the site.',
    {
      cause: caught,
    },
  );
}

export function hasCode(caught: unknown, code: ErrorCode): caught is HansaError {
  return caught instanceof HansaError && caught.code === code;
}
