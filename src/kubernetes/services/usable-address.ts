// Which addresses of a member other members may get. A member must not attract traffic to addresses that
// are not its own, so only those in the ranges count that the operator gave it.

import { Prefix } from '../../api/values/prefix.ts';
import type { IPFamily } from '../objects.ts';

/** Addresses that mean another host for each reader, or no host. */
const never = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/127',
  'fe80::/10',
  'ff00::/8',
].map((range) => Prefix.parse(range));

/** The API server accepts no slice with one of these. */
const special = [
  '0.0.0.0/32',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/24',
  '::/127',
  'fe80::/10',
  'ff02::/16',
].map((range) => Prefix.parse(range));

/** So many addresses are remembered. */
const mostKnown = 50_000;

/** Remembers verdicts: the addresses of a slice come again with each change of it. Forgets all when it is full. */
class Verdicts<T extends string | boolean> {
  readonly #known = new Map<string, T>();
  readonly #judge: (address: string) => T;

  constructor(judge: (address: string) => T) {
    this.#judge = judge;
  }

  of(address: string): T {
    let verdict = this.#known.get(address);
    if (verdict === undefined) {
      if (this.#known.size >= mostKnown) this.#known.clear();
      verdict = this.#judge(address);
      this.#known.set(address, verdict);
    }
    return verdict;
  }
}

/** The addresses in the ranges of a cluster. */
export class UsableAddresses {
  readonly #verdicts: Verdicts<boolean>;

  /** Ranges that cannot be read allow nothing; admission refuses them, but old objects may have them. */
  constructor(ranges: readonly string[]) {
    const read = ranges
      .filter((range) => Prefix.problem(range) === undefined)
      .map((range) => Prefix.parse(range));
    this.#verdicts = new Verdicts(
      (address) =>
        read.some((range) => range.contains(address)) &&
        !never.some((range) => range.contains(address)),
    );
  }

  has(address: string): boolean {
    return this.#verdicts.of(address);
  }
}

/**
 * Undefined for what is no address of an endpoint. An IPv4 address in IPv6 form would be in slices of both
 * families.
 */
export function familyOf(address: string): IPFamily | undefined {
  const family = families.of(address);
  return family === '' ? undefined : family;
}

const anyIPv4 = Prefix.parse('0.0.0.0/0');
const anyIPv6 = Prefix.parse('::/0');
const families = new Verdicts<IPFamily | ''>((address) => {
  if (special.some((range) => range.contains(address))) return '';
  if (anyIPv4.contains(address)) return address.includes(':') ? '' : 'IPv4';
  return anyIPv6.contains(address) ? 'IPv6' : '';
});
