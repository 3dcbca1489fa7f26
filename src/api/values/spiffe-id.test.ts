import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { hasCode } from '../../core/errors/error.ts';
import { isReservedPath, SpiffeId } from './spiffe-id.ts';
import { TrustDomain } from './trust-domain.ts';

const good: readonly (readonly [string, string, readonly string[]])[] = [
  ['spiffe://lubeck.example', 'lubeck.example', []],
  ['spiffe://lubeck.example/web', 'lubeck.example', ['web']],
  ['spiffe://lubeck.example/a/b/c', 'lubeck.example', ['a', 'b', 'c']],
  ['spiffe://a/A-Z_0.9', 'a', ['A-Z_0.9']],
  ['spiffe://a/...', 'a', ['...']],
  ['spiffe://a/.hidden', 'a', ['.hidden']],
  [`spiffe://a/${'x'.repeat(2037)}`, 'a', ['x'.repeat(2037)]],
];

const bad: readonly (readonly [string, RegExp])[] = [
  ['', /does not start with spiffe:\/\//],
  ['lubeck.example/web', /does not start/],
  ['http://lubeck.example/web', /does not start/],
  ['SPIFFE://lubeck.example/web', /does not start/],
  ['spiffe:/lubeck.example', /does not start/],
  [' spiffe://lubeck.example', /does not start/],
  ['spiffe://', /it is empty/],
  ['spiffe:///web', /it is empty/],
  ['spiffe://Lubeck.example/web', /upper-case/],
  ['spiffe://lubeck.example:8443/web', /trust domain/],
  ['spiffe://user@lubeck.example/web', /trust domain/],
  [`spiffe://${'x'.repeat(256)}/web`, /longer than 255/],
  ['spiffe://lubeck.example/', /ends with a slash/],
  ['spiffe://lubeck.example/web/', /ends with a slash/],
  ['spiffe://lubeck.example//web', /empty segment/],
  ['spiffe://lubeck.example/a//b', /empty segment/],
  ['spiffe://lubeck.example/./a', /a segment of its path is \. or \.\./],
  ['spiffe://lubeck.example/a/../b', /a segment of its path is \. or \.\./],
  ['spiffe://lubeck.example/web?x=1', /may only have/],
  ['spiffe://lubeck.example/web#x', /may only have/],
  ['spiffe://lubeck.example/%77eb', /may only have/],
  ['spiffe://lubeck.example/web page', /may only have/],
  ['spiffe://lubeck.example/wéb', /may only have/],
  ['spiffe://lubeck.example/web\u0000', /may only have/],
  [`spiffe://a/${'x'.repeat(2038)}`, /longer than 2048/],
];

suite('a SPIFFE ID', () => {
  for (const [uri, trustDomain, segments] of good) {
    test(`may be ${uri.slice(0, 60)} (${uri.length} bytes)`, () => {
      const id = SpiffeId.parse(uri);
      assert.equal(id.toString(), uri);
      assert.equal(id.trustDomain.name, trustDomain);
      assert.deepEqual(id.segments, segments);
      assert.ok(id.equals(SpiffeId.of(TrustDomain.parse(trustDomain), ...segments)));
    });
  }

  test('is another one where a letter of its path has another case', () => {
    const [lower, upper] = ['spiffe://lubeck.example/web', 'spiffe://lubeck.example/Web'];
    assert(!SpiffeId.parse(lower).equals(SpiffeId.parse(upper)));
    assert.equal(SpiffeId.parse(upper).toString(), upper);
  });

  for (const [uri, why] of bad) {
    test(`may not be ${JSON.stringify(uri.slice(0, 60))}`, () => {
      assert.throws(
        () => SpiffeId.parse(uri),
        (error: unknown) => hasCode(error, 'HANSA_BAD_REQUEST') && why.test(error.message),
      );
    });
  }

  test('below /hansa is reserved, and nothing that only looks like it', () => {
    for (const path of ['/hansa', '/hansa/site', '/hansa/user/ada', '/hansa/a/b/c']) {
      assert.equal(SpiffeId.parse(`spiffe://a${path}`).isReserved, true, path);
    }
    for (const path of ['', '/hansas', '/Hansa/site', '/a/hansa', '/hansa-site']) {
      assert.equal(SpiffeId.parse(`spiffe://a${path}`).isReserved, false, path);
      assert.equal(isReservedPath(path), false);
    }
  });

  test('cannot be made from a segment that would become several', () => {
    const trustDomain = TrustDomain.parse('a.example');
    for (const part of ['', '..', '.', 'a/', '/a', 'a/b', 'a?b']) {
      assert.throws(() => SpiffeId.of(trustDomain, 'hansa', 'user', part), /HansaError/);
    }
  });

  test('cannot be forged', () => {
    const forged = Object.create(SpiffeId.prototype) as SpiffeId;
    assert.throws(() => forged.path, TypeError);
  });

  const segment = fc
    .stringMatching(/^[a-zA-Z0-9._-]{1,12}$/)
    .filter((text) => !/^\.{1,2}$/.test(text));
  const name = fc.stringMatching(/^[a-z0-9._-]{1,20}$/);

  test('is read back as it was written', () => {
    fc.assert(
      fc.property(name, fc.array(segment, { maxLength: 6 }), (trustDomain, segments) => {
        const uri = [`spiffe://${trustDomain}`, ...segments].join('/');
        const id = SpiffeId.parse(uri);
        assert.equal(id.toString(), uri);
        assert.deepEqual(id.segments, segments);
        assert.ok(id.memberOf(TrustDomain.parse(trustDomain)));
      }),
    );
  });

  test('that is accepted is also a URI with nothing but a host and a path', () => {
    const part = fc.oneof(
      segment,
      fc.constantFrom('/', '..', '?', '#', '%2f', '@', ':', '[', 'é', ''),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
        const uri = `spiffe://${parts.join('')}`;
        let id: SpiffeId;
        try {
          id = SpiffeId.parse(uri);
        } catch {
          return;
        }
        const url = new URL(uri);
        assert.equal(url.hostname, id.trustDomain.name);
        assert.equal(url.pathname, id.path);
        assert.equal(url.search + url.hash + url.username + url.port, '');
      }),
    );
  });
});
