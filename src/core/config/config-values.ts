// Parsers of configuration values. Each takes the text of a flag, variable or YAML scalar and
// returns the value, or throws a `ValueProblem` that says what is accepted.

import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { parseTimestamp } from '../../api/values/date-time.ts';
import { parseSiteURL, siteURLRule } from '../../api/values/site-url.ts';

/** Says which values are accepted; the caller adds key, value and source. */
export class ValueProblem extends Error {}

export interface ListenAddress {
  /** An IP address or a name such as localhost; IPv6 without brackets. */
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

export function parseListenAddress(text: string): ListenAddress {
  const found = /^(?:\[(?<v6>[0-9a-fA-F:.]+)\]|(?<host>[^:[\]\s/]*)):(?<port>\d{1,5})$/.exec(text);
  const { v6, host, port } = found?.groups ?? {};
  if (found === null || port === undefined) {
    throw new ValueProblem('HOST:PORT, for example 127.0.0.1:7443 or [::1]:7443');
  }
  if (Number(port) > 65535) throw new ValueProblem('a port from 0 (chosen by the system) to 65535');
  if (v6 !== undefined && isIP(v6) !== 6) throw new ValueProblem('an IPv6 address in brackets');
  if (v6 === undefined && (host === undefined || host === '')) {
    throw new ValueProblem('a host before the colon; 0.0.0.0 listens on every address');
  }
  return { host: v6 ?? host ?? '', port: Number(port) };
}

export function formatListenAddress(address: ListenAddress): string {
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return `${host}:${address.port}`;
}

/** A URL of this site as peers reach it; no slash at its end. */
export function parseAdvertisedUrl(text: string): string {
  const url = parseSiteURL(text);
  if (url === undefined) throw new ValueProblem(siteURLRule);
  return url.href.replace(/\/$/, '');
}

/** An https URL without credentials or fragment, as it stands. */
export function parseHttpsUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '' || url.hash !== '') {
    throw new ValueProblem('an https URL with no user and no fragment');
  }
  return url.href;
}

/** RFC 1035 §2.3.4 and RFC 5890 §2.3.1: letters, digits and hyphens; at least two labels. */
export function parseDnsName(text: string): string {
  const label = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
  if (text.length > 253 || !new RegExp(`^${label}(?:\\.${label})+$`).test(text)) {
    throw new ValueProblem('a DNS name in lower case, for example lubeck.example');
  }
  return text;
}

/** RFC 1123: as names of Kubernetes namespaces. */
export function parseDnsLabel(text: string): string {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(text)) {
    throw new ValueProblem('a DNS label in lower case, for example hansa-system');
  }
  return text;
}

export function parseEmail(text: string): string {
  if (text.length > 254 || !/^[^\s@<>"]+@[^\s@<>"]+$/.test(text)) {
    throw new ValueProblem('a mail address');
  }
  return text;
}

export function parseChoice<const T extends string>(choices: readonly T[]): (text: string) => T {
  return (text) => {
    const chosen = choices.find((choice) => choice === text);
    if (chosen === undefined) throw new ValueProblem(`one of ${choices.join(', ')}`);
    return chosen;
  };
}

export function parseCount(minimum: number, maximum: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= minimum && value <= maximum)) {
      throw new ValueProblem(`a whole number from ${minimum} to ${maximum}`);
    }
    return value;
  };
}

/** In milliseconds since the Unix epoch. */
export function parseTime(text: string): number {
  const found = parseTimestamp(text);
  if (found === undefined) throw new ValueProblem('a time in RFC 3339 (2027-01-31T00:00:00Z)');
  return found;
}

const byteUnits: ReadonlyMap<string, number> = new Map(
  Object.entries<number>({ '': 1, Ki: 1024, Mi: 1024 ** 2 }),
);

/** A count of bytes, as Kubernetes writes quantities: 3145728, 3072Ki or 3Mi. */
export function parseBytes(minimum: number, maximum: number): (text: string) => number {
  return (text) => {
    const found = /^(\d{1,12})(Ki|Mi|)$/.exec(text);
    const value = Number(found?.[1]) * (byteUnits.get(found?.[2] ?? '') ?? Number.NaN);
    if (!(value >= minimum && value <= maximum)) {
      throw new ValueProblem(
        `bytes from ${minimum} to ${maximum}, as a number or with Ki or Mi (3Mi)`,
      );
    }
    return value;
  };
}

/** Paths are relative to the file that names them, or else to the working folder. */
export function parsePath(text: string, baseFolder: string): string {
  if (text === '' || text.includes('\0')) throw new ValueProblem('a path of a file or folder');
  return resolve(baseFolder, text);
}

/** `sun_path` of a Linux socket address holds 108 bytes, one of them the closing zero (unix(7)). */
export const longestSocketPathBytes = 107;

/** The longest name of a socket in the data folder. */
const longestSocketName = 'workload.sock';

export function parseDataDir(text: string, baseFolder: string): string {
  const path = parsePath(text, baseFolder);
  const bytes = Buffer.byteLength(`${path}/${longestSocketName}`);
  if (bytes > longestSocketPathBytes) {
    throw new ValueProblem(
      `a folder whose sockets have paths of at most ${longestSocketPathBytes} bytes, but ${path}/${longestSocketName} has ${bytes}; choose a shorter path, or use a symbolic link to the folder`,
    );
  }
  return path;
}
