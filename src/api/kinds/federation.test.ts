import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { prefixPattern } from './federation.ts';

const pattern = new RegExp(prefixPattern);

suite('the pattern of endpoint prefixes', () => {
  test('accepts prefixes of both families', () => {
    for (const prefix of [
      '10.1.0.0/16',
      '0.0.0.0/0',
      '255.255.255.255/32',
      '::/0',
      '::1/128',
      'fd00::/8',
      '2001:db8:1:2:3:4:5:6/64',
      '2001:DB8::5:6/64',
      '1:2:3:4:5:6:7::/112',
      '::2:3:4:5:6:7:8/99',
    ]) {
      assert.match(prefix, pattern);
    }
  });

  test('refuses all else', () => {
    for (const prefix of [
      '',
      '10.1.0.0',
      '10.1.0.0/33',
      '10.1.0.0/016',
      '10.1.0/16',
      '256.0.0.0/8',
      '010.1.0.0/16',
      ':::/8',
      '1::2::3/64',
      '1:2:3:4:5:6:7/64',
      '1:2:3:4:5:6:7:8:9/64',
      '1:2:3:4:5:6:7:8::/64',
      'fd00::/129',
      'fd00::/-1',
      'fe80::1%eth0/64',
      '12345::/16',
      '10.1.0.0/16 ',
      '10.1.0.0/16\n',
    ]) {
      assert.doesNotMatch(prefix, pattern);
    }
  });

  test('accepts an address exactly if it is one', () => {
    const part = fc.constantFrom('', ':', '::', '0', '1', 'ffff', 'g', '12345', '1:', ':1');
    fc.assert(
      fc.property(fc.array(part, { maxLength: 18 }), (parts) => {
        const address = parts.join('');
        assert.equal(pattern.test(`${address}/64`), isIP(address) === 6, address);
      }),
    );
  });
});
