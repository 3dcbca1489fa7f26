// Addresses that mean another machine to everybody who reads them: this very machine, and what hangs
// on its own wire, where clouds keep their metadata. Pure.

import { BlockList, isIPv6 } from 'node:net';

const local = new BlockList();
local.addSubnet('0.0.0.0', 8, 'ipv4');
local.addSubnet('127.0.0.0', 8, 'ipv4');
local.addSubnet('169.254.0.0', 16, 'ipv4');
local.addAddress('::', 'ipv6');
local.addAddress('::1', 'ipv6');
local.addSubnet('fe80::', 10, 'ipv6');
/** Of Amazon's metadata service, the one that is known to have an address which is not local by its form. */
local.addAddress('fd00:ec2::254', 'ipv6');

/** IPv4 written as IPv6 is what it stands for. */
export function isLocalAddress(address: string): boolean {
  const [bare = ''] = address.split('%', 1);
  return local.check(bare, isIPv6(bare) ? 'ipv6' : 'ipv4');
}
