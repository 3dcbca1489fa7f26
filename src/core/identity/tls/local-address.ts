// Recognizes loopback and link-local addresses, where clouds also serve instance metadata. The same
// address leads to a different target on each machine. Pure.

import { BlockList, isIPv6 } from 'node:net';

const local = new BlockList();
local.addSubnet('0.0.0.0', 8, 'ipv4');
local.addSubnet('127.0.0.0', 8, 'ipv4');
local.addSubnet('169.254.0.0', 16, 'ipv4');
local.addAddress('::', 'ipv6');
local.addAddress('::1', 'ipv6');
local.addSubnet('fe80::', 10, 'ipv6');
/** Amazon's metadata service, the only known one whose address is not link-local. */
local.addAddress('fd00:ec2::254', 'ipv6');

/** An IPv4-mapped IPv6 address counts as its IPv4 address. */
export function isLocalAddress(address: string): boolean {
  const [bare = ''] = address.split('%', 1);
  return local.check(bare, isIPv6(bare) ? 'ipv6' : 'ipv4');
}
