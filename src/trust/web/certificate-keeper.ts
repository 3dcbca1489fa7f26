// Holds the current certificate of the web listener, its open challenges and its current problem.
// serving-certificate.ts or the ACME controller sets them, and the listener uses them.

import type { Clock } from '../../core/clock/clock.ts';
import type { TlsCredential } from '../../core/identity/tls/options.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { WebCertificate } from '../../core/plane/plane.ts';
import type { WebCredential } from './check-credential.ts';

export class WebCertificateKeeper implements WebCertificate {
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  readonly #challenges = new Map<string, TlsCredential>();
  readonly #failures;
  #current: WebCredential | undefined;
  #problem: string | undefined;
  #urgent = false;

  constructor(clock: Clock, metrics: Metrics) {
    this.#clock = clock;
    this.#failures = metrics.counter({
      name: 'hansa_web_certificate_failures_total',
      help: 'Failures to read or obtain a new certificate for the web listener.',
    });
    metrics.observe(
      {
        name: 'hansa_web_certificate_expiry_timestamp_seconds',
        help: 'Expiry of the certificate of the web listener, in seconds since the Unix epoch.',
      },
      (report) => {
        if (this.#current !== undefined) report({}, Math.floor(this.#current.notAfterMs / 1000));
      },
    );
  }

  get current(): WebCredential | undefined {
    return this.#current;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  challengeFor(serverName: string): TlsCredential | undefined {
    return this.#challenges.get(serverName.toLowerCase());
  }

  /**
   * Why there is no good certificate, or why the next one does not come where that is urgent;
   * undefined where all is well.
   */
  get problem(): string | undefined {
    const expiresAtMs = this.#current?.notAfterMs;
    if (expiresAtMs !== undefined && expiresAtMs <= this.#clock.now()) {
      const when = new Date(expiresAtMs).toISOString();
      return `the certificate of the web listener expired at ${when}${this.#problem === undefined ? '' : `; ${this.#problem}`}`;
    }
    if (this.#problem !== undefined && this.#urgent) return this.#problem;
    return this.#current === undefined ? 'the web listener has no certificate yet' : undefined;
  }

  /** It is presented from now on. */
  present(credential: WebCredential): void {
    this.#problem = undefined;
    if (
      credential.certificateChain === this.#current?.certificateChain &&
      credential.privateKey === this.#current.privateKey
    ) {
      return;
    }
    this.#current = credential;
    for (const listener of this.#listeners) listener();
  }

  /** What is presented stays; `problem` says why there is nothing newer, from when on it is urgent. */
  failed(problem: string, urgent: boolean): void {
    this.#problem = problem;
    this.#urgent = urgent;
    this.#failures.add({});
  }

  openChallenge(serverName: string, credential: TlsCredential): void {
    this.#challenges.set(serverName.toLowerCase(), credential);
  }

  closeChallenge(serverName: string): void {
    this.#challenges.delete(serverName.toLowerCase());
  }
}
