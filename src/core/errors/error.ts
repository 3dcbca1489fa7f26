// The error class and the error codes of Hansa.
//
// An error that callers must tell apart has a stable code: here, or in the plane that raises it
// (plane-errors.ts). Each protocol (HTTP, gRPC, exit codes) maps the codes of this file once, in its
// own folder. All other errors are internal: their cause goes to the log and never to the caller.

/** The codes of this file, which every protocol maps. */
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
      'The site cannot parse the request: malformed JSON or YAML, a wrong kind, or a parameter out of range.',
    remedy: 'Correct the part that the message names and send the request again.',
  },
  HANSA_INVALID: {
    meaning: 'One or more fields of the object are invalid. The message lists each with its path.',
    remedy:
      'Correct every field that the message lists. `kubectl explain KIND.spec` or `hansa explain KIND` shows what is accepted.',
  },
  HANSA_LIMIT: {
    meaning: 'The site has reached its limit of objects of this kind.',
    remedy:
      'Delete one that is not needed, or raise the limit that the message names and restart the server.',
  },
  HANSA_NOT_FOUND: {
    meaning: 'The object or path does not exist.',
    remedy: 'Check the spelling of kind and name with `hansa get KIND`.',
  },
  HANSA_ALREADY_EXISTS: {
    meaning: 'An object with this name exists already.',
    remedy: 'Choose another name, or use `hansa apply` to change the existing object.',
  },
  HANSA_CONFLICT: {
    meaning:
      'Another writer changed the object after you read it, or another field manager owns a field.',
    remedy:
      'Read the object again and repeat the change; for apply, use --force-conflicts to take the fields over.',
  },
  HANSA_APPLY_MISMATCH: {
    meaning:
      'The configuration of a server-side apply does not fit the schema of the kind: an undeclared field, a wrong type, or list items that cannot be told apart.',
    remedy: 'Correct the field that the message names; `kubectl explain KIND` shows the schema.',
  },
  HANSA_EXPIRED: {
    meaning: 'The resourceVersion or continue token is older than the history that the site keeps.',
    remedy: 'List again and continue from the resourceVersion of that list.',
  },
  HANSA_UNAUTHENTICATED: {
    meaning:
      'The caller presented no credential, or one that has expired, was revoked or belongs to another trust domain.',
    remedy: 'Run `hansa login`, or create a new token with `hansa access token create`.',
  },
  HANSA_FORBIDDEN: {
    meaning: 'The caller is authenticated, but no role allows the request.',
    remedy:
      'Ask a user with the role admin for a role that allows the verb on this kind; `hansa access list` shows who has which role.',
  },
  HANSA_APPROVAL_REQUIRED: {
    meaning: 'The action needs the approval of another user. The message names the Approval.',
    remedy:
      'Ask a user with the role approver to run `hansa approval approve NAME`. Then repeat the request unchanged.',
  },
  HANSA_METHOD_NOT_ALLOWED: {
    meaning: 'The path exists, but does not support this method.',
    remedy: 'Use one of the verbs that `kubectl api-resources -o wide` lists for the kind.',
  },
  HANSA_NOT_ACCEPTABLE: {
    meaning: 'The site cannot produce any of the media types that the caller accepts.',
    remedy: 'Accept application/json or application/yaml.',
  },
  HANSA_UNSUPPORTED_MEDIA_TYPE: {
    meaning: 'The body has a media type that this path does not accept.',
    remedy:
      'Send application/json or application/yaml, or for PATCH one of the patch types that the message lists.',
  },
  HANSA_TOO_LARGE: {
    meaning: 'A body, header, value or list exceeds the limit.',
    remedy: 'Send less in one request. The message names the limit.',
  },
  HANSA_TOO_MANY_REQUESTS: {
    meaning: 'The caller, or all callers together, exceeded a rate limit or quota of the site.',
    remedy: 'Wait for the time in Retry-After and try again.',
  },
  HANSA_TIMEOUT: {
    meaning:
      'The request did not arrive completely, or the site could not answer it, before the deadline.',
    remedy: 'Try again. If it happens again, run `hansa doctor`.',
  },
  HANSA_UNAVAILABLE: {
    meaning:
      'The site is starting or draining, a part of it is not ready, or the request depends on something that is suspended.',
    remedy:
      'Try again shortly. /readyz and `hansa doctor` show which part is not ready. The message names what is suspended.',
  },
  HANSA_STORE_FULL: {
    meaning: 'The disk of the data folder is full. Nothing was changed; reads still work.',
    remedy: 'Free some space. Writes then work again without a restart.',
  },
  HANSA_STORE_CORRUPT: {
    meaning:
      'The store is corrupt: it contains data that this site did not write, or wrote only in part.',
    remedy: 'Do not write to it. Run `hansa doctor` and restore from a backup.',
  },
  HANSA_STORE_NEWER: {
    meaning: 'A newer version of Hansa wrote the data folder.',
    remedy: 'Start the newer version, or use another data folder.',
  },
  HANSA_STORE_LOCKED: {
    meaning: 'Another daemon uses this data folder.',
    remedy: 'Stop the other daemon, or start this one with another --data-dir.',
  },
  HANSA_FENCED: {
    meaning: 'The writer lost its lease to another holder.',
    remedy: 'Do nothing: the new holder continues the work.',
  },
  HANSA_SEAL_BROKEN: {
    meaning:
      'The site cannot decrypt a sealed secret: the key file is a different one, or the record was changed.',
    remedy: 'Start with the --key-file that sealed the secret.',
  },
  HANSA_CERTIFICATE_INVALID: {
    meaning: 'A certificate breaks a rule of X.509 or of X.509-SVID. The message names the rule.',
    remedy: 'Ask the issuer of the certificate for one that follows the rule.',
  },
  HANSA_JWT_INVALID: {
    meaning: 'A JWT-SVID breaks a rule of JWT-SVID or of JWT. The message names the rule.',
    remedy:
      'Request a new token for the audience that verifies it. If its key is unknown, check that the bundle of its trust domain is not stale (`hansa trust status`).',
  },
  HANSA_BUNDLE_INVALID: {
    meaning:
      'The site rejects a SPIFFE bundle: it is malformed, has no authority, is older than the last one, or contains an authority of this site.',
    remedy:
      'Ask the operator of the other trust domain. Until then the site uses the last valid bundle.',
  },
  HANSA_CLOCK_DOUBTFUL: {
    meaning:
      'All X.509 authorities of the site have expired according to its clock: the clock is wrong, or the site was down for a long time.',
    remedy:
      'Correct the clock and start again: nothing was changed. If the clock is right, start with --ca-clock-trusted-until and a time in the near future.',
  },
  HANSA_AUTHORITY_STATE: {
    meaning: 'The authority does not allow this operation in its current phase.',
    remedy: 'See `hansa trust rotate status`; the message names the allowed operations.',
  },
  HANSA_AUDIT_INVALID: {
    meaning:
      'The audit log does not verify: something other than the site changed, removed or added a record.',
    remedy: 'Keep the log as evidence, and compare it with an export or checkpoint that you trust.',
  },
  HANSA_CONFIG_INVALID: {
    meaning: 'The configuration has an invalid value.',
    remedy:
      'Correct the key that the message names; `hansa config show` shows the source of each value.',
  },
  HANSA_USAGE: {
    meaning: 'The command line is invalid.',
    remedy: 'Run the command with --help.',
  },
  HANSA_UNREACHABLE: {
    meaning:
      'The site, or the API server of a cluster, did not answer at its address. The message says which, and why.',
    remedy:
      'Check that it runs. For a site, check that --data-dir or --site is right; for a cluster, check spec.apiServer and run `hansa doctor --cluster NAME`.',
  },
  HANSA_PEER_UNTRUSTED: {
    meaning:
      'The server at the address of the peer is not the expected site: it has other keys or another trust domain.',
    remedy:
      'An attacker may be between the two sites. Compare the fingerprint with the operator of the peer before you try again.',
  },
  HANSA_CANCELLED: {
    meaning: 'The user answered no to a question. Nothing was changed.',
    remedy: 'Run the command again and answer yes, or add --yes.',
  },
  HANSA_CONDITION_NOT_MET: {
    meaning: 'The expected state was not reached before the timeout.',
    remedy:
      'Look at the conditions in the status of the object (`hansa describe`), or wait longer with --timeout.',
  },
  HANSA_UNHEALTHY: {
    meaning: 'A check found a problem. The output lists each problem with its remedy.',
    remedy: 'Follow the advice below each line marked ✗.',
  },
  HANSA_INTERNAL: {
    meaning: 'A bug in Hansa. The cause is in the log of the site.',
    remedy: 'Report it with the log lines from around that time.',
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
  /** The core code that every protocol maps: `code`, or the one that a plane's code is like. */
  readonly general: CoreErrorCode;
  readonly details: ErrorDetails | undefined;

  constructor(
    /** A copy with another message. */
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

/** Converts any caught value: everything but a HansaError becomes an opaque internal error. */
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
