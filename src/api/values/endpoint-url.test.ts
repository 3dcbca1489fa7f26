import assert from 'node:assert/strict';
import { isIP, isIPv4, isIPv6 } from 'node:net';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  addressPattern,
  addressRangePattern,
  endpointURLPattern,
  isEndpointURL,
} from './endpoint-url.ts';
import { Prefix } from './prefix.ts';
import { SpiffeId, spiffeIdPattern } from './spiffe-id.ts';

const isAddress = (text: string): boolean => new RegExp(addressPattern, 'u').test(text);
const isRange = (text: string): boolean => new RegExp(addressRangePattern, 'u').test(text);

const hexGroups = fc.array(fc.stringMatching(/^[0-9a-fA-F]{1,5}$/), { maxLength: 9 });
/** Mostly addresses: groups with `::` somewhere, or nowhere. */
const nearlyIPv6 = fc
  .tuple(hexGroups, hexGroups, fc.boolean())
  .map(([before, after, hasGap]) =>
    hasGap ? `${before.join(':')}::${after.join(':')}` : [...before, ...after].join(':'),
  );

suite('the URL of an endpoint', () => {
  for (const url of [
    'https://b.example/',
    'https://b.example',
    'https://federation-1.b_c.example:8443/bundle/x%20y',
    'https://localhost:1/',
    'https://B.Example:65535/',
    'https://192.0.2.1:8443/',
    'https://[2001:db8::1]:8443/',
    'https://[::]/',
  ]) {
    test(`${url} is one`, () => assert.ok(isEndpointURL(url)));
  }

  for (const url of [
    '',
    'http://b.example/',
    'https://',
    'https:///bundle',
    'https://b.example:65536/',
    'https://b.example:8443x/',
    'https://b.example:0/',
    'https://b.example:/',
    'https://[::1/',
    'https://[::1]x/',
    'https://[::1%25eth0]/',
    'https://::1/',
    'https://%zz/',
    'https://b.example/%zz',
    'https://b.example/%4',
    'https://256.1.1.1/',
    'https://1.2.3/',
    'https://0x7f.1/',
    'https://b..example/',
    'https://.b.example/',
    'https://user@b.example/',
    'https://b.example/?a=b',
    'https://b.example/#a',
    'https://b.example/a b',
    'https://b.example/"',
    "https://b.example/'",
    'https://b.example/\\',
    'https://b.example/ü',
    'https://b.example/\n',
    `https://b.example/${'a'.repeat(2048)}`,
  ]) {
    test(`${JSON.stringify(url).slice(0, 60)} is none`, () => assert.ok(!isEndpointURL(url)));
  }

  test('is always one that the parser of the platform takes, with the same host and no more parts', () => {
    fc.assert(
      fc.property(fc.stringMatching(new RegExp(endpointURLPattern)), (text) => {
        // The platform also refuses Punycode that decodes to nothing, and groups that are no IPv6 address.
        fc.pre(!/xn--|\[/i.test(text));
        const { protocol, username, search, hash, hostname } = new URL(text);
        assert.deepEqual([protocol, username, search, hash], ['https:', '', '', '']);
        assert.notEqual(hostname, '');
      }),
    );
  });
});

suite('the pattern of addresses', () => {
  test('takes exactly the IPv6 addresses without an IPv4 part', () => {
    fc.assert(
      fc.property(fc.oneof(nearlyIPv6, fc.ipV6()), (text) => {
        assert.equal(isAddress(text), isIPv6(text) && !text.includes('.'));
      }),
    );
  });

  test('takes exactly the IPv4 addresses', () => {
    const number = fc.oneof(fc.integer({ min: 0, max: 300 }).map(String), fc.constant('01'));
    fc.assert(
      fc.property(fc.array(number, { minLength: 3, maxLength: 5 }), (numbers) => {
        const text = numbers.join('.');
        assert.equal(isAddress(text), isIPv4(text));
      }),
    );
  });

  test('of ranges takes only ranges', () => {
    for (const text of ['10.0.0.0/8', '::/0', '2001:db8::/32', '192.0.2.1/32']) {
      assert.ok(isRange(text), text);
      assert.equal(Prefix.problem(text), undefined);
    }
    for (const text of ['10.0.0.0', '10.0.0.0/33', '::/129', '999.1.1.1/8', 'x/8', '::/08']) {
      assert.ok(!isRange(text), text);
    }
    fc.assert(
      fc.property(fc.stringMatching(new RegExp(addressRangePattern)), (text) => {
        assert.notEqual(isIP(text.split('/')[0] ?? ''), 0);
      }),
    );
  });
});

suite('the pattern of SPIFFE IDs', () => {
  const pattern = new RegExp(spiffeIdPattern, 'u');
  const isID = (text: string): boolean => {
    try {
      return SpiffeId.parse(text).toString() === text;
    } catch {
      return false;
    }
  };

  test('takes exactly what the parser takes', () => {
    const segment = fc.oneof(
      fc.stringMatching(/^[.]{0,4}[A-Za-z0-9_-]{0,3}[.]{0,3}$/),
      fc.constantFrom('.', '..', '...', '%41', 'ü', ''),
    );
    const domain = fc.constantFrom('a.example', 'A.example', '', 'a'.repeat(255), 'a'.repeat(256));
    fc.assert(
      fc.property(domain, fc.array(segment, { maxLength: 4 }), (name, segments) => {
        const text = [`spiffe://${name}`, ...segments].join('/');
        assert.equal(pattern.test(text), isID(text), text);
      }),
    );
  });
});
