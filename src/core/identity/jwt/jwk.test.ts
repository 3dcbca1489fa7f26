import assert from 'node:assert/strict';
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type JsonWebKey,
} from 'node:crypto';
import { suite, test } from 'node:test';
import { importJwk, isSameKey } from './jwk.ts';
import { spkiOf } from '../x509/keys.ts';

const curveNames = ['P-256', 'P-384', 'P-521'] as const;

function ellipticJwk(namedCurve: string): JsonWebKey {
  return generateKeyPairSync('ec', { namedCurve }).publicKey.export({ format: 'jwk' });
}

/** As node:crypto reads it by itself. */
const plainly = (key: JsonWebKey) => createPublicKey({ key, format: 'jwk' });
const der = { format: 'der', type: 'spki' } as const;

suite('a JSON Web Key', () => {
  test('of another type leaves no error behind that fails a later operation', () => {
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey;
    const pkcs8 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
      format: 'der',
      type: 'pkcs8',
    });
    assert.equal(isSameKey(ellipticJwk('P-256'), rsa.export(der), rsa), false);
    createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  });

  for (const curve of curveNames) {
    test(`on ${curve} is the key that node:crypto reads, and is exported as that`, () => {
      for (let count = 0; count < 20; count++) {
        const key = ellipticJwk(curve);
        const read = importJwk(key);
        assert.ok(read.equals(plainly(key)));
        assert.deepEqual(spkiOf(read), plainly(key).export(der));
        assert.deepEqual(read.export(der), spkiOf(read));
      }
    });

    test(`on ${curve} is refused off the curve`, () => {
      const { y: _y, ...key } = ellipticJwk(curve);
      assert.throws(() => importJwk({ ...key, y: key.x } as JsonWebKey), /not readable/);
    });

    test(`on ${curve} is refused with a coordinate that is empty, too long, or missing`, () => {
      const key = ellipticJwk(curve);
      for (const x of ['', 'A'.repeat(96), undefined, 7]) {
        assert.throws(() => importJwk({ ...key, x } as JsonWebKey), /not readable/);
      }
    });
  }

  test('may lack the leading zeros of a coordinate', () => {
    let key = ellipticJwk('P-256');
    while (Buffer.from(key.x ?? '', 'base64url')[0] !== 0) key = ellipticJwk('P-256');
    const short = Buffer.from(key.x ?? '', 'base64url')
      .subarray(1)
      .toString('base64url');
    assert.ok(importJwk({ ...key, x: short }).equals(plainly(key)));
  });

  test('is the same as that of a certificate, or is not', () => {
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey;
    const keys = [
      ...curveNames.map(ellipticJwk),
      ellipticJwk('P-256'),
      rsa.export({ format: 'jwk' }),
    ];
    for (const one of keys) {
      for (const other of keys) {
        const publicKey = plainly(other);
        assert.equal(isSameKey(one, publicKey.export(der), publicKey), one === other);
      }
    }
  });
});
