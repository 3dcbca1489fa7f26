import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import {
  encodeInvitation,
  type Invitation,
  invitationId,
  parseInvitation,
  previewProof,
  sameBytes,
  secretDigest,
} from './invitation.ts';

const nowMs = Date.parse('2026-06-01T12:00:00Z');

function sample(changes: Partial<Invitation> = {}): Invitation {
  return {
    url: new URL('https://lubeck.example:8443/'),
    trustDomain: TrustDomain.parse('lubeck.example'),
    keys: [Buffer.alloc(32, 1), Buffer.alloc(32, 2)],
    secret: Buffer.alloc(32, 7),
    expiresAtMs: nowMs + 900_000,
    ...changes,
  };
}

function problemOf(text: string): string {
  try {
    parseInvitation(text, nowMs);
  } catch (error) {
    assert.ok(error instanceof Error);
    return error.message;
  }
  throw new Error('it was accepted');
}

/** A line around any body, with a checksum that fits: what a hostile site could write. */
function line(body: unknown): string {
  const whole = encodeInvitation(sample());
  const text = Buffer.from(JSON.stringify(body)).toString('base64url');
  // The checksum of this very body is taken from an invitation that has it.
  const digest = secretDigest(Buffer.from(JSON.stringify(body))).subarray(0, 8);
  return `${whole.split('.')[0]}.${text}.${digest.toString('base64url')}`;
}

const good = {
  u: 'https://lubeck.example:8443/',
  t: 'lubeck.example',
  k: [Buffer.alloc(32).toString('base64url')],
  s: Buffer.alloc(32).toString('base64url'),
  e: Math.floor(nowMs / 1000) + 900,
};

suite('an invitation', () => {
  test('is one line that reads back as what was written', () => {
    const given = sample({ for: TrustDomain.parse('bruges.example') });
    const text = encodeInvitation(given);
    assert.match(text, /^hansa1\.[\w-]+\.[\w-]{11}$/);
    const read = parseInvitation(`  ${text}\n`, nowMs);
    assert.equal(read.url.href, given.url.href);
    assert.equal(read.trustDomain.name, 'lubeck.example');
    assert.equal(read.for?.name, 'bruges.example');
    assert.deepEqual(read.keys, given.keys);
    assert.deepEqual(read.secret, given.secret);
    assert.equal(read.expiresAtMs, given.expiresAtMs);
    assert.equal(parseInvitation(encodeInvitation(sample()), nowMs).for, undefined);
    assert.equal(read.reenrols, undefined);
    assert.equal(
      parseInvitation(encodeInvitation(sample({ reenrols: true })), nowMs).reenrols,
      true,
    );
  });

  test('is read whatever it holds', () => {
    const bytes = fc
      .uint8Array({ minLength: 32, maxLength: 32 })
      .map((array) => Buffer.from(array));
    fc.assert(
      fc.property(
        bytes,
        fc.array(bytes, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.stringMatching(/^[a-z0-9._-]{1,60}$/),
        (secret, keys, seconds, domain) => {
          const trustDomain = TrustDomain.parse(domain);
          const expiresAtMs = nowMs + seconds * 1000;
          const text = encodeInvitation(sample({ secret, keys, trustDomain, expiresAtMs }));
          const read = parseInvitation(text, nowMs);
          assert.deepEqual([read.secret, read.keys], [secret, keys]);
          assert.equal(read.trustDomain.name, domain);
        },
      ),
    );
  });

  test('with any character changed is refused', () => {
    const text = encodeInvitation(sample());
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_. ';
    fc.assert(
      fc.property(
        fc.nat(text.length - 1),
        fc.constantFrom(...alphabet.split('')),
        (at, character) => {
          fc.pre(text[at] !== character);
          const changed = text.slice(0, at) + character + text.slice(at + 1);
          fc.pre(changed.trim() !== text);
          assert.throws(() => parseInvitation(changed, nowMs), {
            code: 'HANSA_INVITATION_INVALID',
          });
        },
      ),
    );
  });

  test('that is cut anywhere is refused', () => {
    const text = encodeInvitation(sample());
    for (let end = 0; end < text.length; end++) {
      assert.throws(() => parseInvitation(text.slice(0, end), nowMs), {
        code: 'HANSA_INVITATION_INVALID',
      });
    }
    assert.match(problemOf(text.slice(0, -1)), /its end is missing/);
    assert.match(problemOf(text.slice(0, 40)), /its end is missing/);
    assert.match(problemOf(`${text}A`), /its checksum does not match/);
  });

  test('tells in plain words what is wrong with it', () => {
    assert.match(problemOf(''), /it is empty/);
    assert.match(problemOf('hello'), /does not begin with hansa1\./);
    assert.match(problemOf('hansa2.AAAA.AAAA'), /has version 2, but this site supports version 1/);
    assert.match(problemOf(`hansa1.${'A'.repeat(9000)}`), /the maximum is 8192/);
    assert.match(
      problemOf(encodeInvitation(sample()).replace('.', '.\n')),
      /spaces or line breaks/,
    );
  });

  test('that has expired says since when, and whom to ask', () => {
    const text = encodeInvitation(sample({ expiresAtMs: nowMs - 12 * 60_000 }));
    assert.throws(() => parseInvitation(text, nowMs), {
      code: 'HANSA_INVITATION_EXPIRED',
      message:
        'Cannot use the invitation: it expired 12 minutes ago. Ask lubeck.example for a new one.',
    });
    assert.throws(() => parseInvitation(encodeInvitation(sample({ expiresAtMs: nowMs })), nowMs), {
      code: 'HANSA_INVITATION_EXPIRED',
    });
  });

  test('of a hostile site is refused field by field', () => {
    assert.equal(parseInvitation(line(good), nowMs).trustDomain.name, 'lubeck.example');
    const bad: readonly [unknown, RegExp][] = [
      [null, /its encoding is not valid/],
      [[], /its encoding is not valid/],
      [{ ...good, u: 'http://lubeck.example' }, /no valid https URL/],
      [{ ...good, u: 'https://a:b@lubeck.example' }, /no valid https URL/],
      [{ ...good, u: 'https://lubeck.example/?token=1' }, /no valid https URL/],
      [{ ...good, u: 7 }, /no valid https URL/],
      [{ ...good, t: 'Lubeck.example' }, /no valid trust domain/],
      [{ ...good, k: [] }, /pins no keys/],
      [{ ...good, k: Array.from({ length: 9 }, () => good.s) }, /pins no keys or more than 8/],
      [{ ...good, k: ['AAAA'] }, /not a SHA-256/],
      [{ ...good, s: 'AAAA' }, /does not have 32 bytes/],
      [{ ...good, s: undefined }, /does not have 32 bytes/],
      [{ ...good, e: '1' }, /no expiry time/],
      [{ ...good, e: 1e300 }, /no expiry time/],
      [{ ...good, f: '' }, /the trust domain that it is for is not valid/],
      [{ ...good, r: false }, /does not say whether it re-enrols a peer/],
      [{ ...good, r: 'true' }, /does not say whether it re-enrols a peer/],
    ];
    for (const [body, why] of bad) assert.match(problemOf(line(body)), why);
  });

  test('never shows its secret in an error', () => {
    const text = encodeInvitation(sample());
    for (const broken of [text.slice(0, -3), text.replace('hansa1', 'hansa9'), `${text}.x`]) {
      assert.ok(!problemOf(broken).includes(text.slice(20, 40)));
    }
  });
});

suite('knowledge of the secret', () => {
  const digest = secretDigest(Buffer.alloc(32, 7));

  test('is shown for one challenge, one server and one acceptor', () => {
    const proof = previewProof(digest, Buffer.from('c'), 'aa', 'bruges.example');
    assert.ok(sameBytes(proof, previewProof(digest, Buffer.from('c'), 'aa', 'bruges.example')));
    for (const other of [
      previewProof(digest, Buffer.from('d'), 'aa', 'bruges.example'),
      previewProof(digest, Buffer.from('c'), 'ab', 'bruges.example'),
      previewProof(digest, Buffer.from('c'), 'aa', 'evil.example'),
      previewProof(digest, Buffer.from('ca'), 'a', 'bruges.example'),
      previewProof(secretDigest(Buffer.alloc(32, 8)), Buffer.from('c'), 'aa', 'bruges.example'),
    ]) {
      assert.ok(!sameBytes(proof, other));
    }
  });

  test('is not given away by the public name of the invitation', () => {
    assert.match(invitationId(digest), /^[0-9a-f]{64}$/);
    assert.notEqual(invitationId(digest), digest.toString('hex'));
    assert.ok(!sameBytes(Buffer.from('a'), Buffer.from('ab')));
  });
});
