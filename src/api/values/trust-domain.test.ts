import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { hasCode } from '../../core/errors/error.ts';
import { TrustDomain } from './trust-domain.ts';

const good = ['lubeck.example', 'a', '0', 'a_b-c.d', '-', '_spiffe', '192.0.2.1', 'x'.repeat(255)];

const bad: readonly (readonly [string, RegExp])[] = [
  ['', /it is empty/],
  ['x'.repeat(256), /longer than 255 bytes/],
  ['Lubeck.example', /upper-case letters/],
  ['lubeck.example:8443', /may only have/],
  ['user@lubeck.example', /may only have/],
  ['lubeck.example/web', /may only have/],
  ['spiffe://lubeck.example', /may only have/],
  ['lübeck.example', /may only have/],
  ['lubeck%2eexample', /may only have/],
  ['lubeck example', /may only have/],
  ['lubeck.example\n', /may only have/],
  ['[::1]', /may only have/],
];

suite('a trust domain', () => {
  for (const name of good) {
    test(`may be called ${JSON.stringify(name.slice(0, 20))} (${name.length} bytes)`, () => {
      const trustDomain = TrustDomain.parse(name);
      assert.equal(trustDomain.name, name);
      assert.equal(trustDomain.id, `spiffe://${name}`);
      assert.equal(JSON.stringify(trustDomain), JSON.stringify(name));
    });
  }

  for (const [name, why] of bad) {
    test(`may not be called ${JSON.stringify(name.slice(0, 30))}`, () => {
      assert.throws(
        () => TrustDomain.parse(name),
        (error: unknown) => hasCode(error, 'HANSA_BAD_REQUEST') && why.test(error.message),
      );
    });
  }

  test('equals another of the same name, and no other', () => {
    assert.ok(TrustDomain.parse('a.example').equals(TrustDomain.parse('a.example')));
    assert.ok(!TrustDomain.parse('a.example').equals(TrustDomain.parse('b.example')));
  });

  test('cannot be forged', () => {
    const forged = Object.create(TrustDomain.prototype) as TrustDomain;
    assert.throws(() => forged.name, TypeError);
    assert.throws(() => TrustDomain.parse('a.example').equals(forged), TypeError);
  });

  test('is what it was parsed from, whatever that was', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        if (TrustDomain.problem(name) === undefined) {
          assert.match(name, /^[a-z0-9._-]{1,255}$/);
          assert.equal(TrustDomain.parse(name).toString(), name);
        } else {
          assert.throws(() => TrustDomain.parse(name));
        }
      }),
    );
  });

  test('does not repeat all of a hostile name in its error', () => {
    assert.throws(
      () => TrustDomain.parse('!'.repeat(100_000)),
      (error: Error) => error.message.length < 300,
    );
  });
});
