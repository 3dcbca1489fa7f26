// The answer to one question: whom does this token authenticate?

export interface ReviewedUser {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

export interface Acceptance {
  readonly authenticated: true;
  readonly user: ReviewedUser;
  /** The intersection of the token's audiences and those that were asked for. */
  readonly audiences: readonly string[];
  /** When the token expires. */
  readonly expiresAtMs: number;
}

export interface Denial {
  readonly authenticated: false;
  /** In the words of kube-apiserver; undefined where it says nothing. */
  readonly error?: string;
}

/** "Could not check" is not a verdict but an error: HANSA_UNAVAILABLE, HTTP 503. */
export type Verdict = Acceptance | Denial;

export interface TokenQuestion {
  readonly token: string;
  /** Empty: those of the API server. */
  readonly audiences: readonly string[];
}
