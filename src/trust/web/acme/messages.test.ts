import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { ecKey } from '../../../core/identity/x509/test-forge.ts';
import { challengeCertificate } from './certificate-request.ts';
import { parseAuthorization, parseDirectory, parseOrder } from './messages.ts';
import { AcmeProblem, parseRetryAfter, problemOf } from './problem.ts';
import { renewAtMs, retryAfterMs } from './renewal.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

suite('messages of an ACME server', () => {
  const order = {
    status: 'pending',
    authorizations: ['https://acme.example/a'],
    finalize: 'https://acme.example/f',
  };

  test('are read with what is unknown ignored', () => {
    const parsed = parseOrder(Buffer.from(JSON.stringify({ ...order, odd: [1], expires: 'x' })));
    assert.equal(parsed.status, 'pending');
    assert.deepEqual(parsed.authorizations, ['https://acme.example/a']);
  });

  for (const [what, bad] of Object.entries({
    'an unknown status': { ...order, status: 'great' },
    'no authorization': { ...order, authorizations: [] },
    'a hundred authorizations': { ...order, authorizations: Array(100).fill('https://a.example/') },
    'an authorization over http': { ...order, authorizations: ['http://acme.example/a'] },
    'a user in a URL': { ...order, finalize: 'https://me:secret@acme.example/f' },
    'a URL without end': { ...order, finalize: `https://acme.example/${'a'.repeat(3000)}` },
    'a file for a certificate': { ...order, certificate: 'file:///etc/passwd' },
  })) {
    test(`are refused with ${what}`, () => {
      assert.throws(() => parseOrder(Buffer.from(JSON.stringify(bad))), AcmeProblem);
    });
  }

  test('are read or refused, and never anything else, whatever they are', () => {
    const parsers = [parseDirectory, parseOrder, parseAuthorization];
    const body = fc.oneof(
      fc.json(),
      fc.string(),
      fc.record({
        status: fc.constantFrom('pending', 'valid', 7, null),
        identifier: fc.oneof(fc.constant({ type: 'dns', value: 'a.example' }), fc.jsonValue()),
        challenges: fc.oneof(fc.array(fc.jsonValue()), fc.jsonValue()),
        authorizations: fc.jsonValue(),
        finalize: fc.webUrl(),
      }),
    );
    fc.assert(
      fc.property(body, (value) => {
        const bytes = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
        for (const parse of parsers) {
          try {
            parse(bytes);
          } catch (error) {
            assert.ok(error instanceof AcmeProblem);
          }
        }
      }),
    );
  });

  test('of a problem are one printable line of bounded length, whatever they are', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.jsonValue(),
          fc.record({ type: fc.string(), detail: fc.string({ maxLength: 5000 }) }),
        ),
        (value) => {
          const body = Buffer.from(JSON.stringify(value) ?? '');
          const { message, type } = problemOf({ status: 400, headers: {}, body }, 0);
          assert.ok(message.length < 2_000);
          // oxlint-disable-next-line no-control-regex
          assert.doesNotMatch(message, /[\u0000-\u001f\u007f-\u009f]/);
          assert.match(type, /^[A-Za-z]+$/);
        },
      ),
    );
  });

  test('say when to come back in seconds or as a date, and never more than a day', () => {
    const now = Date.UTC(2026, 0, 1);
    assert.equal(parseRetryAfter('120', now), 120_000);
    assert.equal(parseRetryAfter('Thu, 01 Jan 2026 01:00:00 GMT', now), hourMs);
    assert.equal(parseRetryAfter('Thu, 01 Jan 2099 01:00:00 GMT', now), dayMs);
    assert.equal(parseRetryAfter('999999999', now), dayMs);
    for (const bad of [undefined, '', 'soon', '-5 minutes ago', '1'.repeat(100)]) {
      const parsed = parseRetryAfter(bad, now);
      assert.ok(parsed === undefined || parsed === 0);
    }
  });
});

suite('when the next certificate is ordered', () => {
  const now = Date.UTC(2026, 0, 1);
  const of = (lifeMs: number) => ({ notBeforeMs: now, notAfterMs: now + lifeMs });

  test('is at two thirds of a short life, a month before the end of a long one, and a little earlier', () => {
    assert.equal(renewAtMs(of(90 * dayMs), now, 0), now + 60 * dayMs);
    assert.equal(renewAtMs(of(6 * dayMs), now, 0), now + 4 * dayMs);
    assert.equal(renewAtMs(of(398 * dayMs), now, 0), now + 368 * dayMs);
    assert.equal(renewAtMs(of(90 * dayMs), now, 0.999) > now + 56 * dayMs, true);
  });

  test('is never at once, whatever the clock says, and before the end where there is time', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 400 * 24 }),
        fc.integer({ min: -400 * 24, max: 400 * 24 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (lifeHours, skewHours, unit) => {
          const lifeMs = lifeHours * hourMs;
          const at = renewAtMs(of(lifeMs), now + skewHours * hourMs, unit);
          assert.ok(at >= now + skewHours * hourMs + Math.min(lifeMs / 2, hourMs));
          if (skewHours <= 0) assert.ok(at < now + lifeMs);
        },
      ),
    );
  });

  test('after failures is later and later, at least when the server said, at most after hours', () => {
    assert.equal(retryAfterMs(1, undefined, 0), 60_000);
    assert.equal(retryAfterMs(3, undefined, 0), 240_000);
    assert.equal(retryAfterMs(1000, undefined, 0), 6 * hourMs);
    assert.equal(retryAfterMs(1, 12 * hourMs, 0.5), 12 * hourMs);
    assert.equal(retryAfterMs(10, 1, 0) > 60_000, true);
  });
});

test('the answer to TLS-ALPN-01 carries the digest in a critical extension, and that name alone', () => {
  const der = challengeCertificate(
    'lubeck.example',
    'token.thumbprint',
    ecKey(),
    Date.UTC(2026, 5),
  );
  const certificate = new X509Certificate(der);
  assert.equal(certificate.subjectAltName, 'DNS:lubeck.example');
  assert.ok(certificate.verify(certificate.publicKey));
  // 1.3.6.1.5.5.7.1.31, critical, then an OCTET STRING in an OCTET STRING, of a SHA-256.
  const at = der.indexOf(Buffer.from('06082b0601050507011f0101ff042204', 'hex'));
  assert.ok(at > 0);
  assert.equal(
    der.subarray(at + 17, at + 49).toString('hex'),
    // printf token.thumbprint | sha256sum
    'eb5ac167fe249c76e53b430da3116c5d9fde4c5507ba6d01e885516e1bd49f92',
  );
});
