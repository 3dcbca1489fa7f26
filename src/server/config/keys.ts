// The configuration keys of a site, each once, with its meaning, default and parser. With the keys
// that the planes declare, they make one table: the YAML file, the HANSA_* variables, the flags of
// `hansa server`, `hansa config` and the reference page all come from it.

import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { type ConfigKey, configKey, optionalConfigKey } from '../../core/config/config-key.ts';
import {
  formatListenAddress,
  type ListenAddress,
  parseAdvertisedUrl,
  parseBytes,
  parseChoice,
  parseCount,
  parseDataDir,
  parseListenAddress,
  parsePath,
  parseTime,
  ValueProblem,
} from '../../core/config/config-values.ts';
import type { Plane } from '../../core/plane/plane.ts';

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
const authorityKeyTypes = ['ec-p256', 'ec-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'] as const;

function parseTrustDomainName(text: string): string {
  const problem = TrustDomain.problem(text);
  if (problem === undefined) return text;
  throw new ValueProblem(`a trust domain name such as lubeck.example, but ${problem}`);
}

export const siteKeys = {
  dataDir: configKey({
    placeholder: 'DIR',
    meaning:
      'The folder that holds everything the site remembers: store, secrets, sockets, ca.pem. Made where it is missing.',
    default: './hansa-data',
    oneRun: true,
    parse: parseDataDir,
  }),
  trustDomain: optionalConfigKey({
    placeholder: 'NAME',
    meaning:
      'The name of the site in every identity that it issues. Fixed by the first start in a data folder.',
    withoutIt: 'the one that the data folder was started with; required for the first start',
    oneRun: true,
    parse: parseTrustDomainName,
  }),
  api: configKey({
    placeholder: 'HOST:PORT',
    meaning: 'Where the resource API listens, with TLS: kubectl, GitOps controllers, --site.',
    default: '127.0.0.1:7443',
    parse: parseListenAddress,
    format: formatListenAddress,
  }),
  federation: configKey({
    placeholder: 'HOST:PORT|off',
    meaning: 'Where other sites reach this one, with TLS and the SVID of the site.',
    default: '0.0.0.0:8443',
    parse: parseListener,
    format: formatListener,
  }),
  metrics: configKey({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Where /metrics, /healthz and /readyz are served, without TLS. Keep it on loopback unless the network is trusted.',
    default: '127.0.0.1:9464',
    parse: parseListener,
    format: formatListener,
  }),
  web: configKey({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Where the bundle (https_web) and OIDC discovery are served, with a Web PKI certificate: needs servingCert.certFile and servingCert.keyFile, or acme.',
    default: 'off',
    parse: parseListener,
    format: formatListener,
  }),
  'ca.keyType': configKey({
    placeholder: 'TYPE',
    meaning:
      'The keys of authorities that are made from now on. P-384 signs 30 times slower than P-256, RSA 10 to 60 times.',
    default: 'ec-p256',
    parse: parseChoice(authorityKeyTypes),
  }),
  'ca.ttlSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How long an authority lives. A new one takes over before that by itself.',
    default: '7776000',
    parse: parseCount(600, 315_360_000),
  }),
  'ca.clockTrustedUntil': optionalConfigKey({
    placeholder: 'TIME',
    meaning:
      'Up to this time the clock is known to be right, in RFC 3339: authorities that expired while the site was down for long are replaced.',
    withoutIt: 'a start is refused when all authorities seem to have expired for weeks',
    oneRun: true,
    parse: parseTime,
    format: timestamp,
  }),
  'ca.upstreamCertFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning:
      'An authority above this site, in PEM with its intermediates: the site signs with an intermediate of it.',
    withoutIt: 'the site is its own root',
    parse: parsePath,
  }),
  'ca.upstreamKeyFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning: 'The private key of the first certificate in ca.upstreamCertFile, in PEM.',
    withoutIt: 'required with ca.upstreamCertFile',
    parse: parsePath,
  }),
  'ca.upstreamBundleFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning: 'The roots above ca.upstreamCertFile in PEM: what others verify with.',
    withoutIt: 'ca.upstreamCertFile holds a root itself',
    parse: parsePath,
  }),
  'jwt.keyType': configKey({
    placeholder: 'TYPE',
    meaning: 'The keys that sign JWT-SVIDs from now on.',
    default: 'ec-p256',
    parse: parseChoice(authorityKeyTypes),
  }),
  advertise: optionalConfigKey({
    placeholder: 'URL',
    meaning: 'The URL under which peers reach the federation listener; status carries it.',
    withoutIt: 'https://TRUST_DOMAIN:PORT, with the port of the federation listener',
    parse: parseAdvertisedUrl,
  }),
  keyFile: optionalConfigKey({
    placeholder: 'FILE',
    meaning:
      'The key-encryption key that seals secrets in the store; made where it is missing. Best kept on another disk than the data folder, and out of its backups.',
    withoutIt: 'one that the site makes in the secrets folder of the data folder',
    parse: parsePath,
  }),
  logLevel: configKey({
    placeholder: 'LEVEL',
    meaning: 'The least important lines that are logged: debug, info, warn or error.',
    default: 'info',
    oneRun: true,
    parse: parseChoice(['debug', 'info', 'warn', 'error']),
  }),
  logFormat: configKey({
    placeholder: 'FORMAT',
    meaning: 'How log lines look: text for people, json for machines, auto chooses by terminal.',
    default: 'auto',
    oneRun: true,
    parse: parseChoice(['auto', 'text', 'json']),
  }),
  'limits.maxRequestBytes': configKey({
    placeholder: 'BYTES',
    meaning: 'The largest body of a request; larger ones are refused with 413.',
    default: '3Mi',
    parse: parseBytes(1024, 64 * 1024 ** 2),
  }),
  'limits.maxHeaderBytes': configKey({
    placeholder: 'BYTES',
    meaning: 'The largest head of a request; larger ones are refused with 431.',
    default: '32Ki',
    parse: parseBytes(4096, 1024 ** 2),
  }),
  'limits.maxConnections': configKey({
    placeholder: 'COUNT',
    meaning:
      'Connections that a listener holds at once, a quarter of them of one address; further ones are closed.',
    default: '10000',
    parse: parseCount(1, 1_000_000),
  }),
  'limits.maxConcurrentRequests': configKey({
    placeholder: 'COUNT',
    meaning:
      'Requests (not watches) that are worked on at once, a quarter of them of one caller; further ones get 429.',
    default: '400',
    parse: parseCount(1, 100_000),
  }),
  'limits.maxWatches': configKey({
    placeholder: 'COUNT',
    meaning:
      'Watches that are open at once, a quarter of them of one caller; further ones get 429. The admin socket has as many of its own.',
    default: '5000',
    parse: parseCount(1, 1_000_000),
  }),
  'limits.maxUnreadWatchBytes': configKey({
    placeholder: 'BYTES',
    meaning:
      'Bytes that all watches together may leave unread; beyond it, the watches whose clients have not read for longest are ended.',
    default: '64Mi',
    parse: parseBytes(1024 ** 2, 16 * 1024 ** 3),
  }),
  'limits.requestsPerSecond': configKey({
    placeholder: 'COUNT',
    meaning:
      'Requests a second that one caller may send for long; beyond it 429 says when to try again. 0 sets no limit.',
    default: '0',
    parse: parseCount(0, 10_000_000),
  }),
  'limits.recordsPerSecond': configKey({
    placeholder: 'COUNT',
    meaning:
      'Audit records per second that one caller may cause, with a burst of 300 times as many; beyond it 429 says when to try again. A user SVID counts as 100. The owner of the site (admin socket, user admin) is not limited. 0 sets no limit.',
    default: '100',
    parse: parseCount(0, 1_000_000),
  }),
  'limits.requestSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long a request may take to arrive, and its answer to be read. A watch that is not read for so long is ended.',
    default: '60',
    parse: parseCount(1, 3600),
  }),
  'limits.drainSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How long a stopping site waits for requests in flight.',
    default: '10',
    parse: parseCount(0, 3600),
  }),
} as const;

/** Every key of a site, in the order of help texts. */
export type ConfigTable = ReadonlyMap<string, ConfigKey>;

/** Throws a TypeError where a plane's declaration is wrong: that is a fault of the program. */
export function configTable(planes: readonly Pick<Plane, 'name' | 'settings'>[]): ConfigTable {
  const entries: [name: string, key: ConfigKey][] = Object.entries(siteKeys);
  for (const plane of planes) {
    let before = entries.at(-1)?.[0];
    for (const [name, declared] of Object.entries(plane.settings?.keys ?? {})) {
      before = declared.after ?? before;
      const at = entries.findIndex(([other]) => other === before);
      if (at < 0) throw new TypeError(`Key ${name} of ${plane.name}: there is no key ${before}`);
      if (entries.some(([other]) => flagOf(other) === flagOf(name))) {
        throw new TypeError(`Key ${name} of ${plane.name}: ${flagOf(name)} exists already`);
      }
      const clash = entries.find(([other]) => isBelow(name, other) || isBelow(other, name));
      if (clash !== undefined) {
        throw new TypeError(`Key ${name} of ${plane.name}: a file cannot hold it and ${clash[0]}`);
      }
      entries.splice(at + 1, 0, [name, declared]);
      before = name;
    }
  }
  return new Map(entries);
}

/** In a file, a key with others below it is a map and has no value of its own. */
function isBelow(name: string, other: string): boolean {
  return name.startsWith(`${other}.`);
}

function kebab(name: string): string {
  return name.replaceAll('.', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `limits.maxRequestBytes` → `--limits-max-request-bytes`. */
export function flagOf(name: string): string {
  return `--${kebab(name)}`;
}

/** `limits.maxRequestBytes` → `HANSA_LIMITS_MAX_REQUEST_BYTES`. */
export function variableOf(name: string): string {
  return `HANSA_${kebab(name).replaceAll('-', '_').toUpperCase()}`;
}
