// For tests only: a fake ACME server without sockets, which can misbehave as Pebble never does. Its
// certificates are signed, so that tests can verify them.

import { createPublicKey } from 'node:crypto';
import type { Clock } from '../../../core/clock/clock.ts';
import type { VirtualClock } from '../../../core/clock/virtual.ts';
import { DerReader } from '../../../core/identity/x509/der-reader.ts';
import { tags } from '../../../core/identity/x509/der.ts';
import { certificatePem } from '../../../core/identity/x509/pem.ts';
import { forge } from '../../../core/identity/x509/test-forge.ts';
import type {
  ConnectOptions,
  Transport,
  TransportRequest,
  TransportResponse,
} from '../../../core/identity/tls/transport.ts';

interface Scripted {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

interface Post {
  readonly url: string;
  readonly header: Record<string, unknown>;
  readonly payload: Record<string, unknown> | undefined;
  readonly signed: string;
  readonly signature: Buffer;
}

const base = 'https://acme.example';

export class FakeAcme {
  readonly posts: Post[] = [];
  readonly rules: ConnectOptions[] = [];
  /** Answers in the place of its own, by path. */
  readonly refuses = new Map<string, Scripted>();
  readonly #clock: Clock;
  token = 'dG9rZW4tb2YtdGhlLWNoYWxsZW5nZQ';
  challengeType = 'http-01';
  authorizes = 'lubeck.example';
  issuesFor = 'lubeck.example';
  /** The chain that it gives, in the place of a good one. */
  issued: string | undefined;
  badNonces = 0;
  givesNonces = true;
  externalAccountRequired = false;
  /** How often the authorization is still pending when it is looked at after the challenge. */
  pendingLooks = 0;
  retryAfter: string | undefined;
  /** The `error` of the challenge. */
  rejects: unknown;
  contact: unknown;
  looks = 0;
  #nonce = 0;
  #responded = false;
  #csr: Buffer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get transport(): Transport {
    return {
      connect: async (options) => {
        this.rules.push(options);
        return {
          peerChain: [],
          request: async (request) => this.#answer(options.url, request),
          close: () => undefined,
        };
      },
    };
  }

  #answer({ origin }: URL, request: TransportRequest): TransportResponse {
    const scripted = this.refuses.get(request.path);
    if (scripted !== undefined) return this.#respond(scripted);
    if (request.method === 'GET') {
      return this.#respond({ status: 200, headers: {}, body: this.#directory() });
    }
    const post = this.#read(`${origin}${request.path}`, request.body ?? Buffer.alloc(0));
    this.posts.push(post);
    if (this.badNonces > 0) {
      this.badNonces -= 1;
      const type = 'urn:ietf:params:acme:error:badNonce';
      return this.#respond({ status: 400, headers: {}, body: { type, detail: 'stale' } });
    }
    return this.#respond(this.#act(request.path, post));
  }

  #directory(): object {
    return {
      newNonce: `${base}/new-nonce`,
      newAccount: `${base}/new-account`,
      newOrder: `${base}/new-order`,
      meta: { externalAccountRequired: this.externalAccountRequired },
    };
  }

  #act(path: string, { payload }: Post): Scripted {
    const retry: Record<string, string> =
      this.retryAfter === undefined ? {} : { 'retry-after': this.retryAfter };
    switch (path) {
      case '/new-account':
        this.contact = payload?.['contact'];
        return { status: 201, headers: { location: `${base}/account/1` }, body: {} };
      case '/new-order':
        return { status: 201, headers: { location: `${base}/order/1` }, body: this.#order() };
      case '/authorization/1':
        return { status: 200, headers: retry, body: this.#authorization() };
      case '/challenge/1':
        this.#responded = true;
        return { status: 200, headers: {}, body: {} };
      case '/finalize/1':
        this.#csr = Buffer.from(String(payload?.['csr']), 'base64url');
        return { status: 200, headers: {}, body: this.#order() };
      case '/certificate/1':
        return { status: 200, headers: {}, body: this.issued ?? this.#issue() };
      default:
        return { status: 200, headers: {}, body: this.#order() };
    }
  }

  #order(): object {
    const status = this.#csr !== undefined ? 'valid' : this.#responded ? 'ready' : 'pending';
    return {
      status,
      authorizations: [`${base}/authorization/1`],
      finalize: `${base}/finalize/1`,
      ...(status === 'valid' && { certificate: `${base}/certificate/1` }),
    };
  }

  #authorization(): object {
    if (this.#responded) this.looks += 1;
    const over = this.#responded && this.looks > this.pendingLooks;
    return {
      status: !over ? 'pending' : this.rejects === undefined ? 'valid' : 'invalid',
      identifier: { type: 'dns', value: this.authorizes },
      challenges: [
        { type: 'dns-account-01', odd: true },
        {
          type: this.challengeType,
          url: `${base}/challenge/1`,
          token: this.token,
          ...(over && this.rejects !== undefined && { error: this.rejects }),
        },
      ],
    };
  }

  #issue(): string {
    const reader = new DerReader(this.#csr ?? Buffer.alloc(0));
    reader.enter(tags.sequence);
    reader.enter(tags.sequence);
    reader.smallInteger();
    reader.raw(tags.sequence);
    const spki = reader.raw(tags.sequence);
    createPublicKey({ key: spki, format: 'der', type: 'spki' });
    const root = forge({ ca: true });
    const leaf = forge({
      issuer: root,
      ca: false,
      spki,
      dnsNames: [this.issuesFor],
      notBeforeMs: this.#clock.now() - 60_000,
      notAfterMs: this.#clock.now() + 90 * 24 * 3_600_000,
    });
    return certificatePem(leaf.der) + certificatePem(root.der);
  }

  #read(url: string, body: Uint8Array): Post {
    const jws = JSON.parse(Buffer.from(body).toString('utf8')) as Record<string, string>;
    const { protected: header = '', payload = '', signature = '' } = jws;
    const decode = (text: string): Record<string, unknown> =>
      JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as Record<string, unknown>;
    return {
      url,
      header: decode(header),
      payload: payload === '' ? undefined : decode(payload),
      signed: `${header}.${payload}`,
      signature: Buffer.from(signature, 'base64url'),
    };
  }

  #respond({ status, headers, body }: Scripted): TransportResponse {
    return {
      status,
      headers: {
        ...headers,
        ...(this.givesNonces && { 'replay-nonce': `nonce-${this.#nonce++}` }),
      },
      body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    };
  }
}

/** Lets virtual time pass, for an hour at most, until this is settled. */
export async function drive<T>(clock: VirtualClock, promise: Promise<T>): Promise<T> {
  const state = { over: false };
  const settled = promise.finally(() => {
    state.over = true;
  });
  settled.catch(() => undefined);
  for (let i = 0; i < 3600 && !state.over; i += 1) await clock.advance(1_000);
  return settled;
}
