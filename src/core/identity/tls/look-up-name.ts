// Resolves names to addresses without blocking other lookups. node:dns.lookup calls getaddrinfo on
// two threads of libuv's pool, so two names with a dead name server block all others for seconds.
// This file reads the hosts file first, then asks DNS through c-ares, which does not block. It asks
// getaddrinfo only for names that neither knows, to include other sources (mDNS, directories).

import { lookup as getaddrinfo, Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP, isIPv6 } from 'node:net';
import type { Clock } from '../../clock/clock.ts';

/** The sources of names: the system's, except in tests. */
export interface NameSources {
  readonly hosts: () => Promise<string>;
  readonly resolvConf: () => Promise<string>;
  /** Of `address:port`; undefined: those of resolv.conf. */
  readonly servers?: readonly string[];
  readonly system: (name: string) => Promise<readonly string[]>;
}

const systemSources: NameSources = {
  hosts: () => textOf('/etc/hosts'),
  resolvConf: () => textOf('/etc/resolv.conf'),
  system: async (name) =>
    (await getaddrinfo(name, { all: true, order: 'verbatim' })).map(({ address }) => address),
};

/** Timeout of one lookup with all its queries; callers have their own limits. */
const withinMs = 10_000;
/** Timeout of the first query. c-ares doubles it for the second. */
const questionMs = 2000;
const questionTries = 2;
/** RFC 8305 section 3: Resolution Delay, how long one family of addresses waits for the other. */
const familyDelayMs = 50;
/** The former limit of glibc. */
const mostSearched = 6;

/** Running lookups, shared by connections to the same site. */
const underWay = new Map<string, Promise<readonly string[]>>();

/**
 * The addresses of a name, IPv6 and IPv4 alternating, at least one. Rejects with an error of code
 * ENOTFOUND (there is no such name) or EAI_AGAIN (its name server does not answer).
 */
export function lookUpName(
  name: string,
  clock: Clock,
  sources: NameSources = systemSources,
): Promise<readonly string[]> {
  if (sources !== systemSources) return lookUp(name, clock, sources);
  let found = underWay.get(name);
  if (found === undefined) {
    found = lookUp(name, clock, sources).finally(() => underWay.delete(name));
    underWay.set(name, found);
  }
  return found;
}

async function lookUp(
  name: string,
  clock: Clock,
  sources: NameSources,
): Promise<readonly string[]> {
  const fixed = hostsEntry(await sources.hosts(), name);
  if (fixed.length > 0) return inTurns(fixed);
  // RFC 6761 section 6.3: these never leave the machine.
  if (/^(?:.+\.)?localhost\.?$/i.test(name)) return ['::1', '127.0.0.1'];
  const found = await askDns(name, clock, sources);
  if (found.length > 0) return inTurns(found);
  const others = await sources.system(name);
  if (others.length === 0) throw nameError('ENOTFOUND', name);
  return others;
}

/** Empty where DNS knows of no address, or there is no DNS. */
async function askDns(
  name: string,
  clock: Clock,
  { resolvConf, servers }: NameSources,
): Promise<readonly string[]> {
  const candidates = candidatesOf(name, await resolvConf());
  const resolver = new Resolver({ timeout: questionMs, tries: questionTries });
  if (servers !== undefined) resolver.setServers(servers);
  let isLate = false;
  const timer = clock.timer(withinMs, () => {
    isLate = true;
    resolver.cancel();
  });
  try {
    for (const candidate of candidates) {
      const found = await bothFamilies(resolver, candidate, clock);
      if (found.addresses.length > 0) return found.addresses;
      // As in glibc, the next candidate is tried only where this name does not exist.
      if (found.isUnanswered || isLate) throw nameError('EAI_AGAIN', name);
    }
    return [];
  } finally {
    timer.cancel();
    resolver.cancel();
  }
}

interface Found {
  readonly addresses: readonly string[];
  /** A name server did not answer, or answered with a failure. */
  readonly isUnanswered: boolean;
}

function bothFamilies(resolver: Resolver, name: string, clock: Clock): Promise<Found> {
  return new Promise((resolve) => {
    const addresses: string[] = [];
    let left = 2;
    let isUnanswered = false;
    const settle = (): void => resolve({ addresses, isUnanswered });
    const answered = (found: readonly string[]): void => {
      addresses.push(...found);
      left--;
      if (left === 0) settle();
      else if (found.length > 0) clock.timer(familyDelayMs, settle);
    };
    const failed = (error: NodeJS.ErrnoException): void => {
      isUnanswered ||= ['ETIMEOUT', 'ESERVFAIL', 'ECANCELLED'].includes(error.code ?? '');
      answered([]);
    };
    resolver.resolve6(name).then(answered, failed);
    resolver.resolve4(name).then(answered, failed);
  });
}

/** resolv.conf(5): `search` (or the older `domain`) and `ndots`. */
export function candidatesOf(name: string, resolvConf: string): readonly string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)];
  let search: readonly string[] = [];
  let ndots = 1;
  for (const line of resolvConf.split('\n')) {
    const [key, ...values] = line
      .replace(/[#;].*$/, '')
      .trim()
      .split(/\s+/);
    // The last one counts.
    if (key === 'search' || key === 'domain') search = values;
    const given = /\bndots:(\d+)/.exec(values.join(' '))?.[1];
    if (key === 'options' && given !== undefined) ndots = Number(given);
  }
  const searched = search
    .map((domain) => domain.replace(/\.$/, ''))
    .filter((domain) => domain !== '')
    .slice(0, mostSearched)
    .map((domain) => `${name}.${domain}`);
  const dots = name.split('.').length - 1;
  return dots >= ndots ? [name, ...searched] : [...searched, name];
}

/** hosts(5). */
export function hostsEntry(hosts: string, name: string): readonly string[] {
  const wanted = name.toLowerCase().replace(/\.$/, '');
  return hosts.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*$/, '').trim().split(/\s+/);
    const isNamed = names.some((one) => one.toLowerCase() === wanted);
    return isNamed && isIP(address) !== 0 ? [address] : [];
  });
}

/** RFC 8305 section 4: the families take turns, IPv6 first. Each address once. */
function inTurns(addresses: readonly string[]): readonly string[] {
  const all = [...new Set(addresses)];
  const six = all.filter((address) => isIPv6(address));
  const four = all.filter((address) => !isIPv6(address));
  return all
    .flatMap((_, at) => [six[at], four[at]])
    .filter((address): address is string => address !== undefined);
}

function nameError(code: 'ENOTFOUND' | 'EAI_AGAIN', name: string): Error {
  return Object.assign(new Error(`the lookup of ${name} failed (${code})`), { code });
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    // A machine need not have it.
    return '';
  }
}
