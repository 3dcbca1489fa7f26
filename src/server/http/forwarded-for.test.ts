import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { hasCode } from '../../core/errors/error.ts';
import { forwardedSource, maxProxies, plainAddress } from './forwarded-for.ts';

/** 10.0.0.0/8 are proxies. */
const isProxy = (address: string): boolean => address.startsWith('10.');
const proxy = fc.ipV4().map((address) => `10.${address.split('.').slice(1).join('.')}`);
const client = fc.oneof(fc.ipV4(), fc.ipV6()).filter((address) => !isProxy(plainAddress(address)));
const garbage = fc.string({ maxLength: 200 });

suite('the source behind proxies', () => {
  test('is what the proxies appended, whatever the client sent before', () => {
    fc.assert(
      fc.property(
        garbage,
        client,
        fc.array(proxy, { maxLength: maxProxies }),
        (sent, from, via) => {
          const alone = forwardedSource([from, ...via].join(', '), isProxy);
          assert.equal(forwardedSource([sent, from, ...via].join(','), isProxy), alone);
          assert.equal(isIP(alone), isIP(plainAddress(alone)));
          assert.equal(isProxy(alone), false);
        },
      ),
    );
  });

  test('is an address or a refusal for any header', () => {
    fc.assert(
      fc.property(
        fc.oneof(garbage, fc.array(fc.oneof(client, proxy, garbage)).map(String)),
        (any) => {
          try {
            assert.notEqual(isIP(forwardedSource(any, isProxy)), 0);
          } catch (error) {
            assert.ok(hasCode(error, 'HANSA_BAD_REQUEST'), String(error));
          }
        },
      ),
    );
  });

  for (const [header, source] of [
    ['192.0.2.1', '192.0.2.1'],
    [' 192.0.2.1 ', '192.0.2.1'],
    ['192.0.2.1:50412', '192.0.2.1'],
    ['203.0.113.9, 192.0.2.1', '192.0.2.1'],
    ['203.0.113.9, 192.0.2.1, 10.0.0.1, 10.0.0.2', '192.0.2.1'],
    ['not an address, 192.0.2.1', '192.0.2.1'],
    ['2001:DB8:0:0::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    // The outermost proxy called by itself.
    ['10.0.0.1, 10.0.0.2', '10.0.0.1'],
  ] as const) {
    test(`of ${JSON.stringify(header)} is ${source}`, () => {
      assert.equal(forwardedSource(header, isProxy), source);
    });
  }

  for (const header of [
    '',
    ' ',
    ',',
    '192.0.2.1,',
    'unknown',
    '_hidden',
    'lubeck.example',
    '192.0.2.256',
    '192.0.2',
    '010.0.0.1',
    '0x7f.0.0.1',
    '192.0.2.1/32',
    '192.0.2.1:',
    '192.0.2.1:99999999',
    '[192.0.2.1]',
    '[2001:db8::1',
    '2001:db8::1]:443',
    'fe80::1%eth0',
    '"192.0.2.1"',
    '192.0.2.1 192.0.2.2',
    '192.0.2.1\u0000',
    // What stands left of a proxy is read.
    'garbage, 10.0.0.1',
    `192.0.2.1,${'10.0.0.1,'.repeat(maxProxies)}10.0.0.1`,
    ' '.repeat(1_000_000),
  ]) {
    test(`refuses ${JSON.stringify(header.slice(0, 40))}`, () => {
      assert.throws(
        () => forwardedSource(header, isProxy),
        (error) => hasCode(error, 'HANSA_BAD_REQUEST'),
      );
    });
  }
});

test('an IPv4 address of a dual-stack socket is the IPv4 address', () => {
  assert.equal(plainAddress('::ffff:192.0.2.1'), '192.0.2.1');
  assert.equal(plainAddress('192.0.2.1'), '192.0.2.1');
  assert.equal(plainAddress('2001:db8::1'), '2001:db8::1');
  assert.equal(plainAddress('::ffff:c000:201'), '::ffff:c000:201');
});
