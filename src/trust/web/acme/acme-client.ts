// A client of ACME (RFC 8555), for one name and one certificate at a time. It does not trust the server:
// it uses only https, follows no redirects, and limits the size and time of every response.
// order-certificate.ts runs a whole order, and acme-controller.ts decides when.

import type { KeyObject } from 'node:crypto';
import type { Clock } from '../../../core/clock/clock.ts';
import type { Transport, TransportResponse } from '../../../core/identity/tls/transport.ts';
import { publicJwk, signRequest } from './acme-jws.ts';
import {
  type Authorization,
  type Directory,
  type Order,
  parseAuthorization,
  parseDirectory,
  parseOrder,
  parseUrl,
} from './messages.ts';
import { AcmeProblem, parseRetryAfter, problemOf } from './problem.ts';

export interface AcmeClientOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly directoryUrl: string;
  /** PEM of what the server is verified with; undefined: the public authorities. */
  readonly caBundle: string | undefined;
  readonly accountKey: KeyObject;
  /** RFC 8555 §6.1: who asks. */
  readonly userAgent: string;
  readonly signal?: AbortSignal | undefined;
}

/** What a resource said, and when the server wants to be asked again. */
export interface Told<T> {
  readonly value: T;
  readonly retryAfterMs: number | undefined;
}

const requestMs = 30_000;
/** Orders and directories have a kilobyte or two, chains of certificates some more. */
const maxBodyBytes = 128 * 1024;
/** A server that refuses every nonce is broken; one that restarted refuses one. */
const maxBadNonces = 12;

export class AcmeClient {
  readonly #options: AcmeClientOptions;
  #directory: Directory | undefined;
  /** RFC 8555 §6.5: each answer brings the nonce of the next request. */
  #nonce: string | undefined;
  #accountUrl: string | undefined;

  constructor(options: AcmeClientOptions, accountUrl?: string) {
    this.#options = options;
    this.#accountUrl = accountUrl;
  }

  get accountKey(): KeyObject {
    return this.#options.accountKey;
  }

  /** RFC 8555 §7.3. The same key gets the same account. */
  async register(email: string | undefined): Promise<string> {
    const { newAccount, externalAccountRequired } = await this.#readDirectory();
    if (externalAccountRequired) {
      throw new AcmeProblem(
        'externalAccountRequired',
        'the server requires external account binding, which Hansa does not support',
      );
    }
    const payload = {
      termsOfServiceAgreed: true,
      ...(email === undefined ? {} : { contact: [`mailto:${email}`] }),
    };
    const answer = await this.#post(newAccount, payload, 'key');
    this.#accountUrl = parseUrl(answer.headers['location'], 'the URL of the account');
    return this.#accountUrl;
  }

  /** RFC 8555 §7.4. */
  async newOrder(dnsName: string): Promise<{ readonly url: string; readonly order: Order }> {
    const { newOrder } = await this.#readDirectory();
    const payload = { identifiers: [{ type: 'dns', value: dnsName }] };
    const answer = await this.#post(newOrder, payload);
    return {
      url: parseUrl(answer.headers['location'], 'the URL of the order'),
      order: parseOrder(answer.body),
    };
  }

  async order(url: string): Promise<Told<Order>> {
    const answer = await this.#post(url, undefined);
    return { value: parseOrder(answer.body), retryAfterMs: this.#retryAfterOf(answer) };
  }

  /** RFC 8555 §7.5. */
  async authorization(url: string): Promise<Told<Authorization>> {
    const answer = await this.#post(url, undefined);
    return { value: parseAuthorization(answer.body), retryAfterMs: this.#retryAfterOf(answer) };
  }

  /** RFC 8555 §7.5.1: the challenge can be looked at from now on. */
  async respond(challengeUrl: string): Promise<void> {
    await this.#post(challengeUrl, {});
  }

  async finalize(url: string, csr: Uint8Array): Promise<Told<Order>> {
    const answer = await this.#post(url, { csr: Buffer.from(csr).toString('base64url') });
    return { value: parseOrder(answer.body), retryAfterMs: this.#retryAfterOf(answer) };
  }

  /** RFC 8555 §7.4.2: the chain in PEM, as it came. */
  async certificate(url: string): Promise<string> {
    const answer = await this.#post(url, undefined, 'account', 'application/pem-certificate-chain');
    return answer.body.toString('latin1');
  }

  async #readDirectory(): Promise<Directory> {
    if (this.#directory === undefined) {
      const answer = await this.#exchange(this.#options.directoryUrl, { method: 'GET' });
      if (answer.status !== 200) throw this.#problemOf(answer);
      this.#directory = parseDirectory(answer.body);
    }
    return this.#directory;
  }

  /** Undefined as payload is POST-as-GET (RFC 8555 §6.3). */
  async #post(
    url: string,
    payload: object | undefined,
    as: 'account' | 'key' = 'account',
    accept = 'application/json',
  ): Promise<TransportResponse> {
    for (let refused = 0; ; refused += 1) {
      const nonce = await this.#takeNonce();
      const body = signRequest(this.#options.accountKey, url, nonce, this.#signer(as), payload);
      const answer = await this.#exchange(url, {
        method: 'POST',
        headers: { 'content-type': 'application/jose+json', accept },
        body: Buffer.from(body),
      });
      if (answer.status >= 200 && answer.status < 300) return answer;
      const problem = this.#problemOf(answer);
      // RFC 8555 §6.5: to be sent again with the nonce that came with the refusal.
      if (problem.type !== 'badNonce' || refused >= maxBadNonces) throw problem;
    }
  }

  #signer(as: 'account' | 'key'): { readonly kid: string } | { readonly jwk: object } {
    if (as === 'key') return { jwk: publicJwk(this.#options.accountKey) };
    if (this.#accountUrl === undefined) throw new Error('an ACME request before the account');
    return { kid: this.#accountUrl };
  }

  async #takeNonce(): Promise<string> {
    if (this.#nonce === undefined) {
      const { newNonce } = await this.#readDirectory();
      const answer = await this.#exchange(newNonce, { method: 'GET' });
      if (answer.status !== 200 && answer.status !== 204) throw this.#problemOf(answer);
    }
    const nonce = this.#nonce;
    if (nonce === undefined) throw new AcmeProblem('malformed', 'the server gave no nonce');
    this.#nonce = undefined;
    return nonce;
  }

  async #exchange(
    target: string,
    request: {
      readonly method: 'GET' | 'POST';
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: Uint8Array;
    },
  ): Promise<TransportResponse> {
    const { transport, caBundle, userAgent, signal } = this.#options;
    const url = new URL(target);
    const connection = await transport.connect({
      url,
      asSite: false,
      timeoutMs: requestMs,
      verify: () => undefined,
      web: { caBundle, pinnedKeys: [] },
      ...(signal === undefined ? {} : { signal }),
    });
    try {
      const answer = await connection.request(
        {
          ...request,
          path: `${url.pathname}${url.search}`,
          headers: { 'user-agent': userAgent, 'accept-language': 'en', ...request.headers },
        },
        maxBodyBytes,
      );
      const nonce = answer.headers['replay-nonce'];
      // RFC 8555 §6.5.1: base64url, and of no use otherwise.
      if (nonce !== undefined && /^[A-Za-z0-9_-]{1,512}$/.test(nonce)) this.#nonce = nonce;
      return answer;
    } finally {
      connection.close();
    }
  }

  #problemOf(answer: TransportResponse): AcmeProblem {
    return problemOf(answer, this.#options.clock.now());
  }

  #retryAfterOf({ headers }: TransportResponse): number | undefined {
    return parseRetryAfter(headers['retry-after'], this.#options.clock.now());
  }
}
