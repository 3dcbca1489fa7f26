// The credential of one version of a Cluster, from the source that its spec names. It is asked for every
// request, so everything is kept until its file or record changes.

import type { Cluster } from '../../../api/kinds/cluster.ts';
import type { Clock } from '../../clock/clock.ts';
import type { KubeCredential, KubeCredentialSource } from '../kube-client.ts';
import { changedSince, bindingOf, type BoundCluster } from './credential-binding.ts';
import { readClientCertificate } from './client-certificate.ts';
import type { CredentialFile, CredentialFiles } from './credential-files.ts';
import { credentialProblem, problemReason } from './credential-problem.ts';
import type { SiteTokens } from './site-tokens.ts';
import type { StoredCredential, StoredCredentials } from './stored-credentials.ts';
import { claimsOf, type TokenClaims, tokenIn } from './token-claims.ts';
import type { Entry } from '../../store/store.ts';

export type SourceType = 'tokenFile' | 'clientCertificate' | 'inCluster' | 'jwtSVID' | 'stored';

export interface PickedCredential {
  readonly credential: KubeCredential;
  readonly issuedAtMs: number | undefined;
  /** Undefined: never, or not known. */
  readonly expiresAtMs: number | undefined;
  /** Undefined for certificates, and for tokens that are not JWTs. */
  readonly claims: TokenClaims | undefined;
  /** The revision of the record in the store that was looked at, for the next write. */
  readonly storedAt: number | 'absent';
}

export interface RenewSettings {
  readonly intervalMs: number;
  readonly durationSeconds: number;
  readonly renewBeforeMs: number;
}

export interface SourceParts {
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly files: CredentialFiles;
  readonly stored: StoredCredentials;
  readonly siteTokens: SiteTokens;
  readonly inCluster: InCluster;
  /** Called when the API server rejects the credential, at most every few seconds. */
  readonly onRefused: (cluster: string) => void;
}

/** The credential that Kubernetes mounts into the Pod of the site. */
export interface InCluster {
  readonly files: CredentialFiles;
  /** KUBERNETES_SERVICE_HOST; undefined outside of a cluster. */
  readonly host: string | undefined;
}

/** Names of the API server inside its cluster. */
const inClusterHosts = [
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
  'kubernetes.default.svc.cluster.local',
];

/** How many rejected credentials are remembered. There are at most two candidates at a time. */
const maxRefused = 4;
/** The least time between two reports, however many requests an API server rejects. */
const tellEveryMs = 10_000;

type Maybe<T> = T | Promise<T>;

export class ClusterCredentialSource implements KubeCredentialSource {
  readonly cluster: BoundCluster;
  readonly type: SourceType;
  /** Undefined where the site does not renew this credential. */
  readonly renew: RenewSettings | undefined;
  readonly #parts: SourceParts;
  readonly #files: readonly CredentialFile[];
  readonly #ca: CredentialFile | undefined;
  /** The last result and what it was computed from. */
  #kept: { readonly from: readonly unknown[]; readonly picked: PickedCredential } | undefined;
  #opened: { readonly entry: Entry; readonly stored: Maybe<StoredCredential> } | undefined;
  readonly #refused = new Set<string>();
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(cluster: BoundCluster, parts: SourceParts) {
    this.cluster = cluster;
    this.#parts = parts;
    const { spec } = cluster;
    this.type = typeOf(spec.credential);
    this.renew = renewOf(this.type, spec.credential);
    this.#files = filesOf(spec.credential, parts);
    this.#ca =
      spec.caFile !== undefined
        ? parts.files.at(spec.caFile)
        : this.type === 'inCluster'
          ? parts.inCluster.files.at('ca.crt')
          : undefined;
  }

  current(): Maybe<KubeCredential> {
    const picked = this.inspect();
    return picked instanceof Promise
      ? picked.then(({ credential }) => credential)
      : picked.credential;
  }

  /** The same credential, with what is known about it. Rejects with a `credentialProblem`. */
  inspect(): Maybe<PickedCredential> {
    switch (this.type) {
      case 'jwtSVID':
        return this.#siteToken();
      case 'stored':
        return this.#storedCredential();
      case 'clientCertificate':
        return this.#certificateFiles();
      case 'inCluster': {
        const why = notInCluster(this.cluster, this.#parts.inCluster);
        return why === undefined ? this.#tokenFile() : Promise.reject(why);
      }
      case 'tokenFile':
        return this.#tokenFile();
    }
  }

  refused(credential: KubeCredential): void {
    const secret = secretOf(credential);
    for (const file of this.#files) file.doubt();
    this.#parts.siteTokens.forget(secret);
    if (!this.#refused.has(secret)) {
      if (this.#refused.size >= maxRefused) this.#refused.clear();
      this.#refused.add(secret);
      this.#kept = undefined;
    }
    const nowMs = this.#parts.clock.monotonic();
    if (nowMs - this.#toldAtMs < tellEveryMs) return;
    this.#toldAtMs = nowMs;
    this.#parts.onRefused(this.cluster.metadata.name);
  }

  /** PEM of the authorities that sign the API server; undefined: the public ones. */
  authorities(): Maybe<string | undefined> {
    const { caBundle } = this.cluster.spec;
    if (this.#ca === undefined) return caBundle;
    const file = this.#ca;
    return then(this.#text(file), (text) => {
      if (/-----BEGIN CERTIFICATE-----/.test(text)) return text;
      throw credentialProblem(
        'FileUnreadable',
        `The file ${file.path} of cluster ${this.cluster.metadata.name} contains no certificate in PEM. Write the CA of the API server into it.`,
      );
    });
  }

  #tokenFile(): Maybe<PickedCredential> {
    const [file] = this.#files as readonly [CredentialFile];
    return then(this.#text(file), (text) => {
      const entry = this.renew && this.#parts.stored.entry(this.cluster.metadata.name);
      const kept = this.#unchanged(text, entry);
      if (kept !== undefined) return kept;
      const own = this.#token(file, text);
      if (entry === undefined) return this.#keep(own, text, entry);
      return then(this.#open(entry), (stored) =>
        this.#keep(this.#newer(own, stored, entry), text, entry),
      );
    });
  }

  /** The token of the file, or its renewal, whichever is newer and works. */
  #newer(own: PickedCredential, stored: StoredCredential, entry: Entry): PickedCredential {
    const inFile: PickedCredential = { ...own, storedAt: entry.revision };
    const { path } = this.#files[0] as CredentialFile;
    const isOfFile = 'file' in stored.from && stored.from.file === path;
    if (!isOfFile || this.#changed(stored) !== undefined) return inFile;
    if (stored.secret.type !== 'token') return inFile;
    const renewed = pickedToken(stored.secret.token, entry.revision);
    const isNewer =
      renewed.claims?.subject === own.claims?.subject &&
      (renewed.issuedAtMs ?? 0) > (own.issuedAtMs ?? Number.POSITIVE_INFINITY);
    if (!isNewer) return inFile;
    const nowMs = this.#parts.clock.now();
    const works = ({ credential, expiresAtMs = Number.POSITIVE_INFINITY }: PickedCredential) =>
      expiresAtMs > nowMs && !this.#refused.has(secretOf(credential));
    return !works(renewed) && works(inFile) ? inFile : renewed;
  }

  #storedCredential(): Maybe<PickedCredential> {
    const { name } = this.cluster.metadata;
    const entry = this.#parts.stored.entry(name);
    const kept = this.#unchanged(entry);
    if (kept !== undefined) return kept;
    if (entry === undefined) return this.#withoutCredential();
    return then(this.#open(entry), (stored) => {
      if (!('command' in stored.from)) return this.#withoutCredential();
      const why = this.#changed(stored);
      if (why !== undefined) throw why;
      const { secret } = stored;
      const picked =
        secret.type === 'token'
          ? pickedToken(secret.token, entry.revision)
          : this.#certificate(secret.certificate, secret.key, entry.revision);
      return this.#keep(picked, entry);
    });
  }

  #withoutCredential(): Maybe<PickedCredential> {
    const { metadata, spec } = this.cluster;
    // An API server may publish its keys to everyone.
    if (spec.validation?.mode === 'jwks') {
      return pickedOf({ type: 'none' }, {}, 'absent');
    }
    return Promise.reject(
      credentialProblem(
        'NotSet',
        `Cluster ${metadata.name} has no credential for its API server. Set one with: hansa cluster credential set ${metadata.name}. Or name a source in spec.credential.`,
      ),
    );
  }

  #certificateFiles(): Maybe<PickedCredential> {
    const [certFile, keyFile] = this.#files as readonly [CredentialFile, CredentialFile];
    return then(this.#text(certFile), (certificate) =>
      then(this.#text(keyFile), (key) => {
        const kept = this.#unchanged(certificate, key);
        if (kept !== undefined) return kept;
        return this.#keep(this.#certificate(certificate, key, 'absent'), certificate, key);
      }),
    );
  }

  #siteToken(): Maybe<PickedCredential> {
    const audience = this.cluster.spec.credential?.jwtSVID?.audience as string;
    return then(this.#parts.siteTokens.for(audience), (issued) => {
      const kept = this.#unchanged(issued);
      if (kept !== undefined) return kept;
      const { token, issuedAtMs, expiresAtMs } = issued;
      const picked = pickedOf({ type: 'token', token }, { issuedAtMs, expiresAtMs }, 'absent');
      return this.#keep(picked, issued);
    });
  }

  #token(file: CredentialFile, text: string): PickedCredential {
    const token = tokenIn(text);
    if (token !== undefined) return pickedToken(token, 'absent');
    throw credentialProblem(
      'NoToken',
      `The file ${file.path} of cluster ${this.cluster.metadata.name} does not contain a token. Write one token in one line into it.`,
    );
  }

  #certificate(certificate: string, key: string, storedAt: number | 'absent'): PickedCredential {
    const read = readClientCertificate(certificate, key);
    if (typeof read !== 'string') {
      return pickedOf({ type: 'certificate', certificate, key }, read, storedAt);
    }
    throw credentialProblem(
      'BadCertificate',
      `The client certificate of cluster ${this.cluster.metadata.name} cannot be used: ${read}. Replace it.`,
    );
  }

  /** Why the stored credential does not belong to this version of the Cluster. */
  #changed({ binding }: StoredCredential): Error | undefined {
    const { name } = this.cluster.metadata;
    const now = bindingOf(this.cluster);
    const changed = now === undefined ? ['apiServer'] : changedSince(binding, now);
    if (changed.length === 0) return undefined;
    return credentialProblem(
      'BindingChanged',
      `The stored credential of cluster ${name} is not used, because ${changed.join(', ')} changed after it was set. If the Cluster is right, set it again with: hansa cluster credential set ${name}`,
    );
  }

  #open(entry: Entry): Maybe<StoredCredential> {
    if (this.#opened?.entry === entry) return this.#opened.stored;
    const opening = this.#openAndKeep(entry);
    this.#opened = { entry, stored: opening };
    return opening;
  }

  async #openAndKeep(entry: Entry): Promise<StoredCredential> {
    try {
      const stored = await this.#parts.stored.open(entry);
      if (this.#opened?.entry === entry) this.#opened = { entry, stored };
      return stored;
    } catch (error) {
      if (this.#opened?.entry === entry) this.#opened = undefined;
      throw error;
    }
  }

  #text(file: CredentialFile): Maybe<string> {
    const text = file.text();
    if (typeof text === 'string') return text;
    return text.catch((error: unknown) => {
      if (problemReason(error) !== undefined || !(error instanceof Error)) throw error;
      throw credentialProblem(
        'FileUnreadable',
        `Cluster ${this.cluster.metadata.name}: ${error.message}`,
        error,
      );
    });
  }

  /** The kept result, if it was computed from the same values and has not expired since. */
  #unchanged(...from: readonly unknown[]): PickedCredential | undefined {
    const kept = this.#kept;
    if (kept === undefined || kept.from.length !== from.length) return undefined;
    if (!from.every((value, index) => value === kept.from[index])) return undefined;
    const { expiresAtMs = Number.POSITIVE_INFINITY } = kept.picked;
    return this.#parts.clock.now() < expiresAtMs ? kept.picked : undefined;
  }

  #keep(picked: PickedCredential, ...from: readonly unknown[]): PickedCredential {
    this.#kept = { from, picked };
    return picked;
  }
}

function typeOf(credential: Cluster['spec']['credential']): SourceType {
  if (credential?.tokenFile !== undefined) return 'tokenFile';
  if (credential?.clientCertificate !== undefined) return 'clientCertificate';
  if (credential?.inCluster === true) return 'inCluster';
  return credential?.jwtSVID === undefined ? 'stored' : 'jwtSVID';
}

function renewOf(
  type: SourceType,
  credential: Cluster['spec']['credential'],
): RenewSettings | undefined {
  const renew = credential?.renew;
  if (type !== 'stored' && (type !== 'tokenFile' || renew === undefined)) return undefined;
  return {
    intervalMs: (renew?.intervalSeconds ?? 3600) * 1000,
    durationSeconds: renew?.durationSeconds ?? 7 * 86_400,
    renewBeforeMs: (renew?.renewBeforeSeconds ?? 2 * 86_400) * 1000,
  };
}

function filesOf(
  credential: Cluster['spec']['credential'],
  { files, inCluster }: SourceParts,
): readonly CredentialFile[] {
  if (credential?.tokenFile !== undefined) return [files.at(credential.tokenFile)];
  const pair = credential?.clientCertificate;
  if (pair !== undefined) return [files.at(pair.certFile), files.at(pair.keyFile)];
  return credential?.inCluster === true ? [inCluster.files.at('token')] : [];
}

/** The token of the Pod must not go to an address that the author of a Cluster chose. */
function notInCluster({ metadata, spec }: BoundCluster, { host }: InCluster): Error | undefined {
  const { name } = metadata;
  const refuse = (why: string): Error =>
    credentialProblem('NotInCluster', `Cluster ${name} cannot use inCluster: ${why}.`);
  if (host === undefined) {
    return refuse('the site does not run in a Pod. Choose another source in spec.credential');
  }
  const { caFile, caBundle, tlsServerName, proxyURL } = spec;
  if ([caFile, caBundle, tlsServerName, proxyURL].some((value) => value !== undefined)) {
    return refuse(
      'Kubernetes mounts the CA, too. Remove caFile, caBundle, tlsServerName and proxyURL',
    );
  }
  const { hostname } = new URL(spec.apiServer as string);
  const bare = hostname.replace(/^\[|\]$/g, '');
  if (bare === host || inClusterHosts.includes(bare)) return undefined;
  return refuse(
    `its apiServer is not that of the site's own cluster. Use https://kubernetes.default.svc`,
  );
}

function pickedToken(token: string, storedAt: number | 'absent'): PickedCredential {
  const claims = claimsOf(token);
  return { ...pickedOf({ type: 'token', token }, claims ?? {}, storedAt), claims };
}

function pickedOf(
  credential: KubeCredential,
  times: { readonly issuedAtMs?: number | undefined; readonly expiresAtMs?: number | undefined },
  storedAt: number | 'absent',
): PickedCredential {
  const { issuedAtMs, expiresAtMs } = times;
  return { credential, issuedAtMs, expiresAtMs, claims: undefined, storedAt };
}

/** The part that the API server judges, to compare. Never show it. */
export function secretOf(credential: KubeCredential): string {
  if (credential.type === 'token') return credential.token;
  return credential.type === 'certificate' ? credential.certificate : '';
}

/** Without a promise where the value is there already. */
function then<T, R>(value: Maybe<T>, use: (value: T) => Maybe<R>): Maybe<R> {
  if (value instanceof Promise) return value.then((found) => use(found));
  try {
    return use(value);
  } catch (error) {
    return Promise.reject(error);
  }
}
