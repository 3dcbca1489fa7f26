// IP addresses as certificates carry them: 4 or 16 bytes (RFC 5280 §4.2.1.6).

import { isIPv4, isIPv6 } from 'node:net';

/** Undefined where the text is not an IP address, or has a zone, which only has meaning locally. */
export function ipAddressBytes(text: string): Buffer | undefined {
  if (isIPv4(text)) return Buffer.from(text.split('.').map(Number));
  if (!isIPv6(text) || text.includes('%')) return undefined;
  // The last 32 bits may be written as an IPv4 address.
  const dotted = text.lastIndexOf(':') + 1;
  const tail = text.includes('.') ? text.slice(dotted).split('.').map(Number) : [];
  const groups = tail.length === 0 ? text : text.slice(0, dotted) + hexGroups(Buffer.from(tail));
  const [head = '', rest] = groups.split('::', 2);
  const left = head === '' ? [] : head.split(':');
  const right = rest === undefined || rest === '' ? [] : rest.split(':');
  const bytes = Buffer.alloc(16);
  left.forEach((group, i) => bytes.writeUInt16BE(Number.parseInt(group, 16), i * 2));
  right.forEach((group, i) =>
    bytes.writeUInt16BE(Number.parseInt(group, 16), (8 - right.length + i) * 2),
  );
  return bytes;
}

/** The inverse, in the canonical form of RFC 5952. `bytes` has 4 or 16 of them. */
export function ipAddressText(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = hexGroups(bytes);
  let longest = '';
  for (const [run] of groups.matchAll(/(?<![^:])0(?::0)+(?![^:])/g)) {
    if (run.length > longest.length) longest = run;
  }
  if (longest === '') return groups;
  const at = groups.search(new RegExp(`(?<![^:])${longest}(?![^:])`));
  const left = groups.slice(0, at).replace(/:$/, '');
  const right = groups.slice(at + longest.length).replace(/^:/, '');
  return `${left}::${right}`;
}

function hexGroups(bytes: Buffer): string {
  const groups: string[] = [];
  for (let i = 0; i < bytes.length; i += 2) groups.push(bytes.readUInt16BE(i).toString(16));
  return groups.join(':');
}
