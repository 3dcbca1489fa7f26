// The credential of a member in a Secret of the home cluster: the one that `Federation` names. Its texts are
// in no message.

import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { tokenIn } from '../../core/kube/credentials/token-claims.ts';
import type {
  KubeClient,
  KubeCredential,
  KubeCredentialSource,
} from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { recordIn } from './field-values.ts';

export interface SecretCredentialOptions {
  /** The client of the home cluster. */
  readonly home: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** For messages. */
  readonly clusterID: string;
  readonly clock: Pick<Clock, 'monotonic'>;
}

interface SecretContent {
  readonly credential: KubeCredential;
  /** PEM; undefined where the Secret has none. */
  readonly ca: string | undefined;
}

/** A new token is used after this time at the latest. */
const rereadMs = 5 * 60_000;
/** The least time between two reads after rejections, however many requests the API server rejects. */
const doubtMs = 5000;
/** etcd holds no more than about 1.5 MiB. */
const maxSecretBytes = 2 * 1024 * 1024;
const maxCaLength = 131_072;

export class SecretCredential implements KubeCredentialSource {
  readonly #options: SecretCredentialOptions;
  #content: SecretContent | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #isDoubted = false;
  #reading: Promise<SecretContent> | undefined;

  constructor(options: SecretCredentialOptions) {
    this.#options = options;
  }

  current(): KubeCredential | Promise<KubeCredential> {
    const content = this.#current();
    return content instanceof Promise
      ? content.then(({ credential }) => credential)
      : content.credential;
  }

  /** PEM of the authorities that sign the API server. */
  authorities(): string | undefined | Promise<string | undefined> {
    const content = this.#current();
    return content instanceof Promise ? content.then(({ ca }) => ca) : content.ca;
  }

  refused(credential: KubeCredential): void {
    if (credential === this.#content?.credential) this.doubt();
  }

  /** The Secret is read again with the next request, unless that was done a moment ago. */
  doubt(): void {
    this.#isDoubted = true;
  }

  #current(): SecretContent | Promise<SecretContent> {
    const ageMs = this.#options.clock.monotonic() - this.#readAtMs;
    if (this.#content === undefined) return this.#read();
    if (this.#isDoubted && ageMs >= doubtMs) return this.#reread(this.#content);
    // The old one is good until the API server rejects it.
    if (ageMs >= rereadMs) void this.#reread(this.#content);
    return this.#content;
  }

  /** While home cannot be read, the old one stays. */
  #reread(old: SecretContent): Promise<SecretContent> {
    return this.#read().catch(() => old);
  }

  #read(): Promise<SecretContent> {
    this.#reading ??= this.#fetch().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #fetch(): Promise<SecretContent> {
    const { home, namespace, name, clock } = this.#options;
    this.#readAtMs = clock.monotonic();
    const { status, body } = await home.request({
      method: 'GET',
      path: kubePath`/api/v1/namespaces/${namespace}/secrets/${name}`,
      maxBytes: maxSecretBytes,
    });
    if (status !== 200) throw this.#problem(whyNot(status));
    const read = this.#parse(body);
    const known = this.#content;
    const isSame =
      known?.credential.type === 'token' &&
      read.credential.type === 'token' &&
      known.credential.token === read.credential.token &&
      known.ca === read.ca;
    this.#isDoubted = false;
    // The same object, so that `refused` recognises it.
    this.#content = isSame ? known : read;
    return this.#content;
  }

  #parse(body: Buffer): SecretContent {
    let data: Readonly<Record<string, unknown>>;
    try {
      data = recordIn(recordIn(parseBoundedJson(body))['data']);
    } catch {
      // The error of the parser quotes the text.
      throw this.#problem('the API server sent no valid JSON');
    }
    const token = tokenIn(decoded(data['token']) ?? '');
    if (token === undefined) {
      throw this.#problem('it has no key "token" with a bearer token in one line. Add it');
    }
    const ca = decoded(data['ca.crt']);
    if (
      ca !== undefined &&
      (ca.length > maxCaLength || !ca.includes('-----BEGIN CERTIFICATE-----'))
    ) {
      throw this.#problem('its key "ca.crt" has no certificate in PEM. Correct it');
    }
    return { credential: { type: 'token', token }, ca };
  }

  #problem(why: string): HansaError {
    const { namespace, name, clusterID } = this.#options;
    return new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot use the Secret ${namespace}/${name} of the home cluster for member ${clusterID}: ${why}.`,
    );
  }
}

function whyNot(status: number): string {
  if (status === 404) return 'there is no such Secret. Create it with the keys token and ca.crt';
  if (status === 403) {
    return 'the credential of this site may not read it. Apply the RBAC that `hansa cluster manifests` prints';
  }
  return `the API server answered ${status}`;
}

function decoded(value: unknown): string | undefined {
  return typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : undefined;
}
