// The schema of a site's configuration: every key once, with its meaning, default and parser. The
// YAML file, the HANSA_* variables, the flags of `hansa server`, `hansa config` and the reference
// page all come from this table.

import { timestamp } from '../api/object.ts';
import { TrustDomain } from '../api/trust-domain.ts';
import {
  formatListenAddress,
  type ListenAddress,
  parseAdvertisedUrl,
  parseBytes,
  parseChoice,
  parseCount,
  parseDataDir,
  parseDnsName,
  parseEmail,
  parseHttpsUrl,
  parseListenAddress,
  parsePath,
  parseTime,
  ValueProblem,
} from './config-values.ts';

export interface ConfigKey<T> {
  /** What stands for the value in help texts. */
  readonly placeholder: string;
  readonly meaning: string;
  /** As a user would write it; parsed like any other value. Undefined: see `withoutIt`. */
  readonly default?: string;
  /** What happens where there is neither a value nor a default. */
  readonly withoutIt?: string;
  readonly parse: (text: string, baseFolder: string) => T;
  format(value: T): string;
}

function key<T>(declaration: Omit<ConfigKey<T>, 'format'> & Partial<ConfigKey<T>>): ConfigKey<T> {
  return { format: String, ...declaration };
}

function parseListener(text: string): ListenAddress | 'off' {
  if (text === 'off') return 'off';
  try {
    return parseListenAddress(text);
  } catch (error) {
    throw error instanceof ValueProblem ? new ValueProblem(`${error.message}; or off`) : error;
  }
}

function formatListener(value: ListenAddress | 'off'): string {
  return value === 'off' ? value : formatListenAddress(value);
}

/** As SPIRE spells them. */
export const authorityKeyTypes = [
  'ec-p256',
  'ec-p384',
  'rsa-2048',
  'rsa-3072',
  'rsa-4096',
] as const;

function parseTrustDomainName(text: string): string {
  const problem = TrustDomain.problem(text);
  if (problem === undefined) return text;
  throw new ValueProblem(`a trust domain name such as lubeck.example, but ${problem}`);
}

export const configKeys = {
  dataDir: key({
    placeholder: 'DIR',
    meaning:
      'The folder that holds everything the site remembers: store, secrets, sockets, ca.pem. Made where it is missing.',
    default: './hansa-data',
    parse: parseDataDir,
  }),
  trustDomain: key({
    placeholder: 'NAME',
    meaning:
      'The name of the site in every identity that it issues. Fixed by the first start in a data folder.',
    withoutIt: 'the one that the data folder was started with; required for the first start',
    parse: parseTrustDomainName,
  }),
  api: key({
    placeholder: 'HOST:PORT',
    meaning: 'Where the resource API listens, with TLS: kubectl, GitOps controllers, --site.',
    default: '127.0.0.1:7443',
    parse: parseListenAddress,
    format: formatListenAddress,
  }),
  federation: key({
    placeholder: 'HOST:PORT|off',
    meaning: 'Where other sites reach this one, with TLS and the SVID of the site.',
    default: '0.0.0.0:8443',
    parse: parseListener,
    format: formatListener,
  }),
  metrics: key({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Where /metrics, /healthz and /readyz are served, without TLS. Keep it on loopback unless the network is trusted.',
    default: '127.0.0.1:9464',
    parse: parseListener,
    format: formatListener,
  }),
  web: key({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Where the bundle (https_web) and OIDC discovery are served, with a Web PKI certificate: needs servingCert.certFile and servingCert.keyFile, or acme.',
    default: 'off',
    parse: parseListener,
    format: formatListener,
  }),
  'servingCert.certFile': key({
    placeholder: 'FILE',
    meaning:
      'The certificate chain of the web listener in PEM, the leaf first. Read again when it changes.',
    withoutIt: 'acme is needed',
    parse: parsePath,
  }),
  'servingCert.keyFile': key({
    placeholder: 'FILE',
    meaning: 'The private key of servingCert.certFile in PEM.',
    withoutIt: 'acme is needed',
    parse: parsePath,
  }),
  'servingCert.fileSyncInterval': key({
    placeholder: 'SECONDS',
    meaning:
      'How often servingCert.certFile and servingCert.keyFile are read again, also where no change was noticed.',
    default: '300',
    parse: parseCount(30, 3600),
  }),
  'acme.directoryUrl': key({
    placeholder: 'URL',
    meaning: "The directory of the ACME server (RFC 8555), for example Let's Encrypt's.",
    withoutIt: 'no certificate is ordered',
    parse: parseHttpsUrl,
  }),
  'acme.domainName': key({
    placeholder: 'NAME',
    meaning: 'The DNS name that the certificate is for.',
    withoutIt: 'required with acme.directoryUrl',
    parse: parseDnsName,
  }),
  'acme.email': key({
    placeholder: 'ADDRESS',
    meaning: 'Whom the ACME server may write to.',
    withoutIt: 'the account has no contact',
    parse: parseEmail,
  }),
  'acme.tosAccepted': key({
    placeholder: 'true|false',
    meaning: "Whether you agree to the ACME server's terms of service.",
    default: 'false',
    parse: parseChoice(['true', 'false']),
  }),
  'acme.challenge': key({
    placeholder: 'TYPE',
    meaning:
      'How control of the name is proven: tls-alpn-01 on the web listener, or http-01 on acme.httpAddress.',
    default: 'tls-alpn-01',
    parse: parseChoice(['tls-alpn-01', 'http-01']),
  }),
  'acme.httpAddress': key({
    placeholder: 'HOST:PORT',
    meaning: 'Where http-01 is answered, without TLS, and only while a challenge is open.',
    default: '0.0.0.0:80',
    parse: parseListenAddress,
    format: formatListenAddress,
  }),
  'acme.caFile': key({
    placeholder: 'FILE',
    meaning: 'Certificates in PEM that the ACME server itself is verified with, for a private one.',
    withoutIt: 'the roots that Node knows',
    parse: parsePath,
  }),
  'bundle.refreshHintSeconds': key({
    placeholder: 'SECONDS',
    meaning: 'How often others are asked to fetch the bundle of this site.',
    default: '300',
    parse: parseCount(60, 3600),
  }),
  'ca.keyType': key({
    placeholder: 'TYPE',
    meaning:
      'The keys of authorities that are made from now on. P-384 signs 30 times slower than P-256, RSA 10 to 60 times.',
    default: 'ec-p256',
    parse: parseChoice(authorityKeyTypes),
  }),
  'ca.ttlSeconds': key({
    placeholder: 'SECONDS',
    meaning: 'How long an authority lives. A new one takes over before that by itself.',
    default: '7776000',
    parse: parseCount(600, 315_360_000),
  }),
  'ca.spreadSeconds': key({
    placeholder: 'SECONDS',
    meaning:
      'How long a new authority is published before it signs, at least: others fetch the bundle meanwhile.',
    withoutIt: 'twice bundle.refreshHintSeconds',
    parse: parseCount(0, 2_592_000),
  }),
  'ca.receiptDeadlineSeconds': key({
    placeholder: 'SECONDS',
    meaning:
      'How long a rotation waits for active peers to confirm the new bundle, at most; then it goes on and says who did not.',
    default: '86400',
    parse: parseCount(0, 2_592_000),
  }),
  'ca.clockTrustedUntil': key({
    placeholder: 'TIME',
    meaning:
      'Up to this time the clock is known to be right, in RFC 3339: authorities that expired while the site was down for long are replaced.',
    withoutIt: 'a start is refused when all authorities seem to have expired for weeks',
    parse: parseTime,
    format: timestamp,
  }),
  'ca.upstreamCertFile': key({
    placeholder: 'FILE',
    meaning:
      'An authority above this site, in PEM with its intermediates: the site signs with an intermediate of it.',
    withoutIt: 'the site is its own root',
    parse: parsePath,
  }),
  'ca.upstreamKeyFile': key({
    placeholder: 'FILE',
    meaning: 'The private key of the first certificate in ca.upstreamCertFile, in PEM.',
    withoutIt: 'required with ca.upstreamCertFile',
    parse: parsePath,
  }),
  'ca.upstreamBundleFile': key({
    placeholder: 'FILE',
    meaning: 'The roots above ca.upstreamCertFile in PEM: what others verify with.',
    withoutIt: 'ca.upstreamCertFile holds a root itself',
    parse: parsePath,
  }),
  'jwt.keyType': key({
    placeholder: 'TYPE',
    meaning: 'The keys that sign JWT-SVIDs from now on.',
    default: 'ec-p256',
    parse: parseChoice(authorityKeyTypes),
  }),
  'jwt.issuer': key({
    placeholder: 'URL',
    meaning: 'The iss of JWT-SVIDs, and of OIDC discovery: where the web listener is reached.',
    withoutIt: 'https://acme.domainName where that is set; else JWT-SVIDs have no iss',
    parse: parseAdvertisedUrl,
  }),
  maxFederations: key({
    placeholder: 'COUNT',
    meaning:
      'How many SPIFFEFederations there may be. MAX_FEDERATED_CLUSTERS is read where HANSA_MAX_FEDERATIONS is not set.',
    default: '50',
    parse: parseCount(1, 100_000),
  }),
  advertise: key({
    placeholder: 'URL',
    meaning: 'The URL under which peers reach the federation listener; status carries it.',
    withoutIt: 'https://TRUST_DOMAIN:PORT, with the port of the federation listener',
    parse: parseAdvertisedUrl,
  }),
  keyFile: key({
    placeholder: 'FILE',
    meaning:
      'The key-encryption key that seals secrets in the store; made where it is missing. Best kept on another disk than the data folder, and out of its backups.',
    withoutIt: 'one that the site makes in the secrets folder of the data folder',
    parse: parsePath,
  }),
  logLevel: key({
    placeholder: 'LEVEL',
    meaning: 'The least important lines that are logged: debug, info, warn or error.',
    default: 'info',
    parse: parseChoice(['debug', 'info', 'warn', 'error']),
  }),
  logFormat: key({
    placeholder: 'FORMAT',
    meaning: 'How log lines look: text for people, json for machines, auto chooses by terminal.',
    default: 'auto',
    parse: parseChoice(['auto', 'text', 'json']),
  }),
  'limits.maxRequestBytes': key({
    placeholder: 'BYTES',
    meaning: 'The largest body of a request; larger ones are refused with 413.',
    default: '3Mi',
    parse: parseBytes(1024, 64 * 1024 ** 2),
  }),
  'limits.maxHeaderBytes': key({
    placeholder: 'BYTES',
    meaning: 'The largest head of a request; larger ones are refused with 431.',
    default: '32Ki',
    parse: parseBytes(4096, 1024 ** 2),
  }),
  'limits.maxConnections': key({
    placeholder: 'COUNT',
    meaning:
      'Connections that a listener holds at once, a quarter of them of one address; further ones are closed.',
    default: '10000',
    parse: parseCount(1, 1_000_000),
  }),
  'limits.maxConcurrentRequests': key({
    placeholder: 'COUNT',
    meaning:
      'Requests (not watches) that are worked on at once, a quarter of them of one caller; further ones get 429.',
    default: '400',
    parse: parseCount(1, 100_000),
  }),
  'limits.maxWatches': key({
    placeholder: 'COUNT',
    meaning:
      'Watches that are open at once, a quarter of them of one caller; further ones get 429. The admin socket has as many of its own.',
    default: '5000',
    parse: parseCount(1, 1_000_000),
  }),
  'limits.maxUnreadWatchBytes': key({
    placeholder: 'BYTES',
    meaning:
      'Bytes that all watches together may leave unread; beyond it, the watches whose clients have not read for longest are ended.',
    default: '64Mi',
    parse: parseBytes(1024 ** 2, 16 * 1024 ** 3),
  }),
  'limits.requestsPerSecond': key({
    placeholder: 'COUNT',
    meaning:
      'Requests a second that one caller may send for long; beyond it 429 says when to try again. 0 sets no limit.',
    default: '0',
    parse: parseCount(0, 10_000_000),
  }),
  'limits.recordsPerSecond': key({
    placeholder: 'COUNT',
    meaning:
      'Audit records per second that one caller may cause, with a burst of 300 times as many; beyond it 429 says when to try again. A user SVID counts as 100. The owner of the site (admin socket, user admin) is not limited. 0 sets no limit.',
    default: '100',
    parse: parseCount(0, 1_000_000),
  }),
  'limits.requestSeconds': key({
    placeholder: 'SECONDS',
    meaning:
      'How long a request may take to arrive, and its answer to be read. A watch that is not read for so long is ended.',
    default: '60',
    parse: parseCount(1, 3600),
  }),
  'limits.drainSeconds': key({
    placeholder: 'SECONDS',
    meaning: 'How long a stopping site waits for requests in flight.',
    default: '10',
    parse: parseCount(0, 3600),
  }),
} as const;

export type ConfigKeyName = keyof typeof configKeys;

export const configKeyNames = Object.keys(configKeys) as readonly ConfigKeyName[];

export type ConfigValue<K extends ConfigKeyName> =
  (typeof configKeys)[K] extends ConfigKey<infer T> ? T : never;

function kebab(name: string): string {
  return name.replaceAll('.', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `limits.maxRequestBytes` → `--limits-max-request-bytes`. */
export function flagOf(name: ConfigKeyName): string {
  return `--${kebab(name)}`;
}

/** `limits.maxRequestBytes` → `HANSA_LIMITS_MAX_REQUEST_BYTES`. */
export function variableOf(name: ConfigKeyName): string {
  return `HANSA_${kebab(name).replaceAll('-', '_').toUpperCase()}`;
}
