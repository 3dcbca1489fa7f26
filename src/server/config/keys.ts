// The configuration keys of a site with meaning, default and parser. Together with the keys of the
// planes they are the source of the YAML file, the HANSA_* variables, the flags of `hansa server`,
// `hansa config` and the reference page.

import { timestamp } from '../../api/object.ts';
import { Prefix } from '../../api/values/prefix.ts';
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

/** More proxies than a site has. A request may be compared with each. */
const maxProxyRanges = 64;

function parseProxies(text: string): readonly Prefix[] {
  const ranges = text.split(',', maxProxyRanges + 1).map((one) => one.trim());
  if (ranges.length > maxProxyRanges) throw new ValueProblem(`at most ${maxProxyRanges} ranges`);
  return ranges.map((range) => {
    const problem = Prefix.problem(range);
    if (problem !== undefined) {
      throw new ValueProblem(
        `address ranges such as 192.0.2.10/32,2001:db8::/64, but of ${JSON.stringify(range.slice(0, 64))} ${problem}`,
      );
    }
    const prefix = Prefix.parse(range);
    // Every client could choose its own address.
    if (prefix.length === 0) {
      throw new ValueProblem(`the addresses of proxies, but ${range} contains every address`);
    }
    return prefix;
  });
}

/** The names that SPIRE uses. */
const authorityKeyTypes = ['ec-p256', 'ec-p384', 'rsa-2048', 'rsa-3072', 'rsa-4096'] as const;

function parseTrustDomainName(text: string): string {
  const problem = TrustDomain.problem(text);
  if (problem === undefined) return text;
  throw new ValueProblem(`a trust domain name such as lubeck.example, but ${problem}`);
}

export const siteKeys = {
  dataDir: configKey({
    placeholder: 'DIR',
    meaning: 'The data folder of the site: store, secrets, sockets and ca.pem. Created if missing.',
    default: './hansa-data',
    oneRun: true,
    parse: parseDataDir,
  }),
  trustDomain: optionalConfigKey({
    placeholder: 'NAME',
    meaning:
      'The trust domain of the site, which is part of every SPIFFE ID. Fixed at the first start of a data folder.',
    withoutIt: 'the trust domain of the data folder; required at the first start',
    oneRun: true,
    parse: parseTrustDomainName,
  }),
  api: configKey({
    placeholder: 'HOST:PORT',
    meaning: 'Address of the resource API (TLS), for kubectl, GitOps controllers and --site.',
    default: '127.0.0.1:7443',
    parse: parseListenAddress,
    format: formatListenAddress,
  }),
  federation: configKey({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Address of the federation listener for other sites, with TLS and the SVID of the site.',
    default: '0.0.0.0:8443',
    parse: parseListener,
    format: formatListener,
  }),
  'federation.trustedProxies': optionalConfigKey({
    placeholder: 'CIDRS',
    meaning:
      'Proxies in front of the api, federation and web listeners, as address ranges with commas between them. Behind them, the address of a client is that in X-Forwarded-For; from others, and over TLS with a client certificate, the site ignores that header. In a file beside federation, write the key with its dot.',
    withoutIt: 'none: the address of a client is that of its connection',
    parse: parseProxies,
    format: (proxies) => proxies.join(','),
  }),
  metrics: configKey({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Address of /metrics, /healthz and /readyz, without TLS. Keep it on loopback unless you trust the network.',
    default: '127.0.0.1:9464',
    parse: parseListener,
    format: formatListener,
  }),
  web: configKey({
    placeholder: 'HOST:PORT|off',
    meaning:
      'Address of the web listener, which serves the bundle (https_web) and OIDC discovery with a Web PKI certificate. Needs servingCert.certFile and servingCert.keyFile, or acme.',
    default: 'off',
    parse: parseListener,
    format: formatListener,
  }),
  'ca.keyType': configKey({
    placeholder: 'TYPE',
    meaning:
      'Key type of new X.509 authorities. P-384 signs 30 times slower than P-256, RSA 10 to 60 times slower.',
    default: 'ec-p256',
    parse: parseChoice(authorityKeyTypes),
  }),
  'ca.ttlSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'Lifetime of an authority. The site rotates to a new one before it expires.',
    default: '7776000',
    parse: parseCount(600, 315_360_000),
  }),
  'ca.clockTrustedUntil': optionalConfigKey({
    placeholder: 'TIME',
    meaning:
      'Confirms that the clock is right until this time (RFC 3339), so that the site replaces authorities that expired while it was down.',
    withoutIt: 'the site does not start if all authorities seem to have expired weeks ago',
    oneRun: true,
    parse: parseTime,
    format: timestamp,
  }),
  'ca.upstreamCertFile': optionalConfigKey({
    placeholder: 'FILE',
    meaning:
      'Upstream authority in PEM, with its intermediates. It signs the X.509 authorities of the site.',
    withoutIt: 'the authorities of the site are self-signed',
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
    meaning: 'Root certificates of the upstream authority in PEM, for the trust bundle.',
    withoutIt: 'ca.upstreamCertFile must contain a root',
    parse: parsePath,
  }),
  'jwt.keyType': configKey({
    placeholder: 'TYPE',
    meaning: 'Key type of new JWT authorities.',
    default: 'ec-p256',
    parse: parseChoice(authorityKeyTypes),
  }),
  advertise: optionalConfigKey({
    placeholder: 'URL',
    meaning:
      'The URL at which peers reach the federation listener. The status of the Site shows it.',
    withoutIt: 'https://TRUST_DOMAIN:PORT, with the port of the federation listener',
    parse: parseAdvertisedUrl,
  }),
  keyFile: optionalConfigKey({
    placeholder: 'FILE',
    meaning:
      'File with the key-encryption key that seals secrets in the store. Created if missing. Keep it on another disk than the data folder, and out of its backups.',
    withoutIt: 'a file in the secrets folder of the data folder',
    parse: parsePath,
  }),
  logLevel: configKey({
    placeholder: 'LEVEL',
    meaning: 'Minimum level of log lines: debug, info, warn or error.',
    default: 'info',
    oneRun: true,
    parse: parseChoice(['debug', 'info', 'warn', 'error']),
  }),
  logFormat: configKey({
    placeholder: 'FORMAT',
    meaning: 'Log format: text, json, or auto (text on a terminal, otherwise json).',
    default: 'auto',
    oneRun: true,
    parse: parseChoice(['auto', 'text', 'json']),
  }),
  'limits.maxRequestBytes': configKey({
    placeholder: 'BYTES',
    meaning: 'Maximum size of a request body. The site rejects larger ones with 413.',
    default: '3Mi',
    parse: parseBytes(1024, 64 * 1024 ** 2),
  }),
  'limits.maxHeaderBytes': configKey({
    placeholder: 'BYTES',
    meaning: 'Maximum size of the request headers. The site rejects larger ones with 431.',
    default: '32Ki',
    parse: parseBytes(4096, 1024 ** 2),
  }),
  'limits.maxConnections': configKey({
    placeholder: 'COUNT',
    meaning:
      'Maximum number of connections of a listener, and a quarter of that per address. The listener closes further ones.',
    default: '10000',
    parse: parseCount(1, 1_000_000),
  }),
  'limits.maxConcurrentRequests': configKey({
    placeholder: 'COUNT',
    meaning:
      'Maximum number of concurrent requests (without watches), and a quarter of that per caller. Further ones get 429.',
    default: '400',
    parse: parseCount(1, 100_000),
  }),
  'limits.maxWatches': configKey({
    placeholder: 'COUNT',
    meaning:
      'Maximum number of open watches, and a quarter of that per caller. Further ones get 429. The admin socket has a separate limit of the same size, and so do the streams of agents.',
    default: '5000',
    parse: parseCount(1, 1_000_000),
  }),
  'limits.maxUnreadBytes': configKey({
    placeholder: 'BYTES',
    meaning:
      'Maximum number of bytes of answers and watches that clients have not read yet, and a quarter of that per user. Beyond it, the site ends the answers and watches of that user, or of the user with most unread bytes, that have waited longest.',
    default: '64Mi',
    parse: parseBytes(1024 ** 2, 16 * 1024 ** 3),
  }),
  'limits.requestsPerSecond': configKey({
    placeholder: 'COUNT',
    meaning:
      'Sustained requests per second of one caller. Further ones get 429 with Retry-After. 0 means no limit.',
    default: '0',
    parse: parseCount(0, 10_000_000),
  }),
  'limits.recordsPerSecond': configKey({
    placeholder: 'COUNT',
    meaning:
      'Audit records per second that one caller may cause, with a burst of 300 times as many. Beyond it, requests get 429 with Retry-After. A user SVID counts as 100. The owner of the site (admin socket, user admin) has no limit. 0 means no limit.',
    default: '100',
    parse: parseCount(0, 1_000_000),
  }),
  'limits.requestSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'Timeout for receiving a request, and for the client to read the response. The site ends a watch whose client does not read for this time.',
    default: '60',
    parse: parseCount(1, 3600),
  }),
  'limits.drainSeconds': configKey({
    placeholder: 'SECONDS',
    meaning: 'How long a stopping site waits for requests in progress.',
    default: '10',
    parse: parseCount(0, 3600),
  }),
} as const;

/** All keys of a site, in the order of the help text. */
export type ConfigTable = ReadonlyMap<string, ConfigKey>;

/** Throws a TypeError if the declaration of a plane is wrong, which is a bug. */
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
