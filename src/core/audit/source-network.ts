// Maps an address to the network that one party usually holds, so that one host with thousands of
// addresses counts as one source.

import { ipAddressBytes, ipAddressText } from '../identity/x509/ip-address.ts';

/** A usual customer or office: /24 of IPv4, and /48 of IPv6 (RFC 6177 section 2). */
const ipv4Bits = 24;
const ipv6Bits = 48;

/** For example `192.0.2.0/24` or `2001:db8:1::/48`; `unknown` where the text is not an address. */
export function networkOf(address: string): string {
  const found = ipAddressBytes(address.replace(/^::ffff:(?=\d+\.)/i, ''));
  if (found === undefined) return 'unknown';
  const bits = found.length === 4 ? ipv4Bits : ipv6Bits;
  return `${ipAddressText(Buffer.from(found).fill(0, bits / 8))}/${bits}`;
}
