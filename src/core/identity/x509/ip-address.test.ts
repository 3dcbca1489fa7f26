import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ipAddressBytes, ipAddressText } from './ip-address.ts';

test('every address reads back from its text', () => {
  const address = fc
    .oneof(
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      fc.uint8Array({ minLength: 16, maxLength: 16 }),
      // Runs of zeros are what the short form is about.
      fc.array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 }),
    )
    .map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(address, (bytes) => {
      assert.deepEqual(ipAddressBytes(ipAddressText(bytes)), bytes);
    }),
    { numRuns: 1000 },
  );
});

for (const [written, canonical] of [
  ['127.0.0.1', '127.0.0.1'],
  ['::1', '::1'],
  ['::', '::'],
  ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ['fe80::', 'fe80::'],
  ['::ffff:192.0.2.1', '::ffff:c000:201'],
  ['10:0:0:10::', '10:0:0:10::'],
] as const) {
  test(`${written} is shown as ${canonical}`, () => {
    assert.equal(ipAddressText(ipAddressBytes(written) as Buffer), canonical);
  });
}

for (const text of ['', 'localhost', '1.2.3', '256.1.1.1', '::1::', 'fe80::1%eth0', '1.2.3.4/8']) {
  test(`${JSON.stringify(text)} is no address`, () => {
    assert.equal(ipAddressBytes(text), undefined);
  });
}
