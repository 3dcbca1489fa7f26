import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { withErrorCode } from '../conformance/harness.ts';
import type { SealedPlace } from './sealer.ts';
import { createSealer } from './sealer.ts';

const random = new SeededRandom('sealer');
const sealer = createSealer(Buffer.alloc(32, 7), random);
const place: SealedPlace = {
  collection: 'site.secrets',
  key: 'root',
  column: 'private',
  version: 3,
};
const broken = withErrorCode('HANSA_SEAL_BROKEN');

describe('a sealed secret', () => {
  test('opens in its place, whatever its size', () =>
    fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 5000 }), async (secret) => {
        const sealed = await sealer.seal(place, secret);
        assert.deepEqual(await sealer.open(place, sealed), Buffer.from(secret));
      }),
    ));

  test('does not open in any other place', async () => {
    const sealed = await sealer.seal(place, Buffer.from('secret'));
    const others: SealedPlace[] = [
      { ...place, collection: 'tokens' },
      { ...place, key: 'other' },
      { ...place, column: 'public' },
      { ...place, version: 4 },
      // The same characters, cut in other places.
      { ...place, collection: 'keysr', key: 'oot' },
      { ...place, key: 'rootp', column: 'rivate' },
    ];
    for (const other of others) await assert.rejects(sealer.open(other, sealed), broken);
  });

  test('does not open when any one bit is flipped', async () => {
    const sealed = await sealer.seal(place, Buffer.from('secret'));
    for (let bit = 0; bit < sealed.byteLength * 8; bit++) {
      const flipped = Buffer.from(sealed);
      flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      await assert.rejects(sealer.open(place, flipped), broken);
    }
  });

  test('does not open when it is cut short, longer, or something else', async () => {
    const sealed = await sealer.seal(place, Buffer.from('secret'));
    for (let length = 0; length < sealed.byteLength; length++) {
      await assert.rejects(sealer.open(place, sealed.subarray(0, length)), broken);
    }
    await assert.rejects(sealer.open(place, Buffer.concat([sealed, Buffer.of(0)])), broken);
    await assert.rejects(sealer.open(place, Buffer.alloc(200)), broken);
  });

  test('does not open with halves of two records put together', async () => {
    const first = await sealer.seal(place, Buffer.from('first!'));
    const second = await sealer.seal(place, Buffer.from('second'));
    const mixed = Buffer.concat([first.subarray(0, 80), second.subarray(80)]);
    await assert.rejects(sealer.open(place, mixed), broken);
  });

  test('does not open with another key, and says so', async () => {
    const sealed = await sealer.seal(place, Buffer.from('secret'));
    const other = createSealer(Buffer.alloc(32, 8), random);
    await assert.rejects(other.open(place, sealed), (error: unknown) => {
      assert.match(String(error), /another key file/);
      return broken(error);
    });
  });

  test('never looks the same twice, and shows neither secret nor key', async () => {
    const secret = Buffer.from('a secret that is easy to find');
    const [first, second] = [await sealer.seal(place, secret), await sealer.seal(place, secret)];
    assert.notDeepEqual(first, second);
    assert.equal(first.includes(secret), false);
    assert.equal(first.includes(Buffer.alloc(16, 7)), false);
  });

  test('a key of another length is no key', () => {
    assert.throws(() => createSealer(Buffer.alloc(16), random), RangeError);
  });
});
