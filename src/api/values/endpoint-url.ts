// Patterns of addresses and of URLs of endpoints that another program calls, such as a SPIRE server. API servers and
// Hansa judge by the same pattern, so what one accepts, the other accepts too.

const ipv4Number = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const ipv4 = `${ipv4Number}(\\.${ipv4Number}){3}`;

/** RFC 4291 §2.2, forms 1 and 2: `::` stands for one or more groups, at any place. */
const ipv6 = ((group: string): string =>
  [
    `(${group}:){7}${group}`,
    `(${group}:){1,7}:`,
    ...[1, 2, 3, 4, 5, 6].map((after) => `(${group}:){1,${7 - after}}(:${group}){1,${after}}`),
    `:(:${group}){1,7}`,
    '::',
  ].join('|'))('[0-9a-fA-F]{1,4}');

export const addressPattern = `^(${ipv4}|${ipv6})$`;

/** An address and the number of bits that all addresses of the range share. */
export const addressRangePattern = `^(${ipv4}/(3[0-2]|[12]?[0-9])|(${ipv6})/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$`;

const label = '[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?';
/** URL standard: a host whose last label is a number is an IPv4 address, so the last label of a name has a letter first. */
const dnsName = `(${label}\\.)*[A-Za-z]([-A-Za-z0-9_]*[A-Za-z0-9_])?`;
const port =
  '(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})';
/** RFC 3986 §3.3, without the apostrophe, which would end a string in some configuration files. */
const pathCharacter = '([-A-Za-z0-9._~!$&()*+,;=:@/]|%[0-9a-fA-F]{2})';

export const mostEndpointURLLength = 2048;

/**
 * An https URL without user, query and fragment. An IPv6 address is judged by its characters: a pattern for the rest
 * would be longer than a message may be, and SPIRE reports an address that is none.
 */
export const endpointURLPattern = `^https://(${dnsName}|${ipv4}|\\[[0-9a-fA-F:]{2,39}\\])(:${port})?(/${pathCharacter}*)?$`;

const endpointURL = new RegExp(endpointURLPattern, 'u');

export function isEndpointURL(text: string): boolean {
  return text.length <= mostEndpointURLLength && endpointURL.test(text);
}
