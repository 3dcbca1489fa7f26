import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { addressRange, Prefix } from './prefix.ts';

suite('a range of addresses', () => {
  test('holds the addresses that begin like it', () => {
    const cases: readonly [string, string, boolean][] = [
      ['192.0.2.0/24', '192.0.2.255', true],
      ['192.0.2.0/24', '192.0.3.0', false],
      ['0.0.0.0/0', '203.0.113.9', true],
      ['192.0.2.7/32', '192.0.2.7', true],
      ['2001:db8::/32', '2001:db8:ffff::1', true],
      ['2001:db8::/32', '2001:db9::', false],
      ['::/0', '::1', true],
      ['::/0', '192.0.2.1', false],
      ['192.0.2.0/24', '::ffff:192.0.2.9', true],
      ['192.0.2.0/24', 'nonsense', false],
      ['192.0.2.0/24', '', false],
    ];
    for (const [range, address, holds] of cases) {
      assert.equal(Prefix.parse(range).contains(address), holds, `${address} in ${range}`);
    }
  });

  test('is refused where it is no range', () => {
    for (const text of [
      '',
      '/',
      '192.0.2.0',
      '192.0.2.0/33',
      '192.0.2.0/024',
      '192.0.2.0/-1',
      '192.0.2.1/24',
      '192.0.02.0/24',
      '192.0.2/24',
      '2001:db8::/129',
      '2001:db8:::/32',
      '2001::db8::/32',
      'fe80::1%eth0/64',
      '1:2:3:4:5:6:7:8:9/128',
      '12345::/16',
      'localhost/8',
    ]) {
      assert.equal(typeof Prefix.problem(text), 'string', text);
      assert.throws(() => Prefix.parse(text), { code: 'HANSA_BAD_REQUEST' }, text);
    }
  });

  test('of a whole address holds it and nobody else', () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV4(), (one, other) => {
        const range = Prefix.parse(`${one}/32`);
        return range.contains(one) && range.contains(other) === (one === other);
      }),
    );
    fc.assert(
      fc.property(fc.ipV6(), (address) => Prefix.parse(`${address}/128`).contains(address)),
    );
  });

  test('is never anything but read or refused', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const problem = Prefix.problem(text);
        return problem === undefined ? Prefix.parse(text) instanceof Prefix : problem !== '';
      }),
    );
  });
});

suite('the range of a CIDR in a policy', () => {
  test('has no bits beyond the length', () => {
    const range = { bits: 32, first: 0xc000_0200n, last: 0xc000_02ffn };
    assert.deepEqual(addressRange('192.0.2.0/24'), range);
    assert.deepEqual(addressRange('192.0.2.77/24'), range);
  });

  test('is one address without a length', () => {
    assert.deepEqual(addressRange('192.0.2.1'), addressRange('192.0.2.1/32'));
    assert.deepEqual(addressRange('::ffff:192.0.2.1'), addressRange('192.0.2.1/32'));
    assert.deepEqual(addressRange('2001:db8::1'), addressRange('2001:db8::1/128'));
  });

  for (const text of [
    '',
    '/',
    '/8',
    '192.0.2.0/',
    '192.0.2.0/33',
    '192.0.2.0/08',
    '1.2.3/8',
    '::/1/1',
  ]) {
    test(`is none for ${JSON.stringify(text)}`, () => {
      assert.equal(addressRange(text), undefined);
    });
  }
});
