// The size of a header list as HTTP/2 counts it (RFC 9113 section 6.5.2). A client that does not
// acknowledge the settings of the site is not bound by them, so the site counts too.

import type { IncomingHttpHeaders } from 'node:http2';

const bytesPerField = 32;

export function headerListSize(headers: IncomingHttpHeaders): number {
  let bytes = 0;
  for (const name in headers) {
    const value = headers[name];
    if (typeof value === 'string') bytes += name.length + value.length + bytesPerField;
    else for (const each of value ?? []) bytes += name.length + each.length + bytesPerField;
  }
  return bytes;
}
