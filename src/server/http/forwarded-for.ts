// Reads the header X-Forwarded-For behind proxies that the site trusts. Pure. Each proxy appends the
// address that it was called from, so only the right end of the list is trustworthy: a client can send
// the header itself, and the proxy appends to it.

import { isIP, SocketAddress } from 'node:net';
import { HansaError } from '../../core/errors/error.ts';

/** More proxies than stand in a row anywhere. */
export const maxProxies = 16;
/** The longest text of an address, with brackets and a port. */
const maxEntryLength = 64;

/**
 * The address that the leftmost trusted proxy was called from: the first one from the right that is not
 * a trusted proxy. If all of them are, the leftmost. Entries further left are not read. Throws
 * HANSA_BAD_REQUEST for an entry that is not an address, and for more than `maxProxies` proxies.
 */
export function forwardedSource(header: string, isProxy: (address: string) => boolean): string {
  let end = header.length;
  let source: string | undefined;
  for (let proxies = 0; end >= 0; proxies++) {
    if (proxies > maxProxies) throw refuse(`it lists more than ${maxProxies} trusted proxies`);
    const comma = end === 0 ? -1 : header.lastIndexOf(',', end - 1);
    source = readEntry(header, comma + 1, end);
    if (!isProxy(source)) return source;
    end = comma;
  }
  return source as string;
}

/** The address of a socket. IPv4 that a dual-stack socket shows as IPv6 (RFC 4291 §2.5.5.2) becomes IPv4. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]`, and with a port `192.0.2.1:80` or `[2001:db8::1]:80`. */
function readEntry(header: string, from: number, to: number): string {
  // Before anything copies it: a client may have sent megabytes.
  if (to - from > 4 * maxEntryLength) throw refuse('one of its entries is too long');
  const text = header.slice(from, to).trim();
  const bracketed = /^\[([^\]]{1,45})\](?::\d{1,5})?$/.exec(text)?.[1];
  const address = bracketed ?? /^([\d.]{7,15}):\d{1,5}$/.exec(text)?.[1] ?? text;
  const family = address.includes('%') ? 0 : isIP(address);
  if (family === 0 || (bracketed !== undefined && family !== 6)) {
    throw refuse('one of its entries is not an IP address');
  }
  if (family === 4) return address;
  // One text for one address, because limits are by text.
  return plainAddress(new SocketAddress({ address, family: 'ipv6' }).address);
}

function refuse(why: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', `Cannot read X-Forwarded-For of the proxy: ${why}.`);
}
