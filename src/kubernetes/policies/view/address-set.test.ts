import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { AddressSet } from './address-set.ts';

suite('a set of addresses', () => {
  const set = new AddressSet(['10.1.0.5', '10.2.0.5', 'fd00::7', 'web.example.org', '10.9.0.0/16']);

  for (const [cidr, except, has] of [
    ['10.1.0.0/16', [], true],
    ['10.1.0.5/32', [], true],
    ['10.1.0.5', [], true],
    ['10.3.0.0/16', [], false],
    ['10.0.0.0/8', ['10.1.0.0/16'], true],
    ['10.0.0.0/8', ['10.2.0.0/16', '10.1.0.0/16'], false],
    ['10.0.0.0/8', ['10.0.0.0/8', '10.1.0.0/16'], false],
    ['0.0.0.0/0', ['fd00::/8'], true],
    ['fd00::/8', [], true],
    ['::/0', ['fd00::7/128'], false],
    ['10.1.0.1/16', [], true],
    ['10.9.0.0/16', [], false],
  ] as const) {
    const without = except.length === 0 ? '' : ` without ${except.join(' and ')}`;
    test(`${has ? 'has' : 'has no'} address in ${cidr}${without}`, () => {
      assert.equal(set.hasIn(cidr, except), has);
    });
  }

  for (const text of ['', '/', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8/8', 'x/8', '::/129']) {
    test(`has nothing in ${JSON.stringify(text)}, which is no range`, () => {
      assert.equal(set.hasIn(text), false);
    });
  }

  test('ignores exceptions that are no ranges', () => {
    assert.equal(set.hasIn('10.0.0.0/8', ['x', '10.0.0.0/99']), true);
  });

  test('finds the same as a look at each address', () => {
    const byte = fc.integer({ min: 0, max: 7 });
    const address = byte.map((last) => `192.0.2.${last}`);
    const range = fc.tuple(byte, fc.integer({ min: 29, max: 32 })).map(([a, b]) => ({ a, b }));
    fc.assert(
      fc.property(
        fc.array(address, { maxLength: 4 }),
        range,
        fc.array(range, { maxLength: 3 }),
        (addresses, one, holes) => {
          const text = ({ a, b }: typeof one): string => `192.0.2.${a}/${b}`;
          const isIn = (value: number, { a, b }: typeof one): boolean =>
            value >> (32 - b) === a >> (32 - b);
          const expected = addresses.some((each) => {
            const value = Number(each.split('.')[3]);
            return isIn(value, one) && !holes.some((hole) => isIn(value, hole));
          });
          assert.equal(new AddressSet(addresses).hasIn(text(one), holes.map(text)), expected);
        },
      ),
    );
  });
});
