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

/** `undefined` as range list: those of the cluster itself, where every address counts. */
export class UsableAddresses {
  readonly #ranges: readonly Prefix[] | undefined;

  /** Ranges that cannot be read allow nothing; admission refuses them, but old objects may have them. */
  constructor(ranges: readonly string[] | undefined) {
    this.#ranges = ranges
      ?.filter((range) => Prefix.problem(range) === undefined)
      .map((range) => Prefix.parse(range));
  }

  has(address: string): boolean {
    if (this.#ranges === undefined) return true;
    return (
      this.#ranges.some((range) => range.contains(address)) &&
      !never.some((range) => range.contains(address))
    );
  }
}

/** Undefined for what is not an address. An IPv4 address in IPv6 form would be in slices of both families. */
export function familyOf(address: string): IPFamily | undefined {
  if (anyIPv4.contains(address)) return address.includes(':') ? undefined : 'IPv4';
  return anyIPv6.contains(address) ? 'IPv6' : undefined;
}

const anyIPv4 = Prefix.parse('0.0.0.0/0');
const anyIPv6 = Prefix.parse('::/0');
