// The routes behind `hansa svid mint --audience` and `hansa svid validate`.

import assert from 'node:assert/strict';
import { createPublicKey, X509Certificate } from 'node:crypto';
import { suite, type TestContext, test } from 'node:test';
import { adminsGroup, type Caller } from '../../core/access/identity.ts';
import { hasCode, type ErrorCode } from '../../core/errors/error.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { systemRandom } from '../../core/clock/system.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import type { MintedSvid } from './svids/mint.ts';
import type { MintedJwtSvid } from './svids/mint-jwt.ts';
import { startTestSite, type TestWorkloadSite } from './test-workload-site.ts';
import type { Verdict } from './svids/validate-svid.ts';

const owner = { user: 'owner', groups: [adminsGroup] } as unknown as Caller;
const stranger = { user: 'ci', groups: [] } as unknown as Caller;

async function site(t: TestContext): Promise<TestWorkloadSite> {
  const started = await startTestSite();
  t.after(started.stop);
  return started;
}

async function post<T>(
  { services, store }: TestWorkloadSite,
  path: string,
  body: unknown,
  caller: Caller | undefined = owner,
): Promise<T> {
  const route = services.routes.find((one) => one.path === path && one.method === 'POST');
  assert(route !== undefined, path);
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = await callRoute(route, { caller, body: text }, { store });
  return JSON.parse(answer.body.toString()) as T;
}

const mint = (started: TestWorkloadSite, body: unknown, caller?: Caller): Promise<MintedJwtSvid> =>
  post(started, '/hansa/v1/jwt-svids', body, caller);
const validate = (started: TestWorkloadSite, body: unknown, caller?: Caller): Promise<Verdict> =>
  post(started, '/hansa/v1/svid-validations', body, caller);

const failsWith = (code: ErrorCode) => (error: unknown) => {
  assert(hasCode(error, code), String(error));
  return true;
};

const spiffeID = 'spiffe://lubeck.example/batch';

test('a minted X.509-SVID has no DNS names, and a request for some is refused', async (t) => {
  const started = await site(t);
  const pair = await generateP256(systemRandom);
  const publicKey = createPublicKey(pair).export({ format: 'pem', type: 'spki' });
  const asked = { spiffeID, publicKey };
  const minted = await post<MintedSvid>(started, '/hansa/v1/svids', asked);
  const leaf = new X509Certificate(minted.certificate);
  assert.equal(leaf.subjectAltName, `URI:${spiffeID}`);
  const body = { ...asked, dnsNames: ['api.app1.kube-fed.svc'] };
  await assert.rejects(post(started, '/hansa/v1/svids', body), failsWith('HANSA_BAD_REQUEST'));
});

suite('minting a JWT-SVID', () => {
  test('gives the owner a token for the audience and the time that he names', async (t) => {
    const started = await site(t);
    const minted = await mint(started, { spiffeID, audience: ['db'], ttlSeconds: 30 });
    assert.equal(minted.spiffeId, spiffeID);
    assert.equal(minted.keyId, started.authority.jwtSigner.keyId);
    const payload = minted.token.split('.')[1] ?? '';
    const { iat, exp, aud } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as {
      readonly iat: number;
      readonly exp: number;
      readonly aud: unknown;
    };
    assert.equal(exp - iat, 30);
    assert.deepEqual(aud, ['db']);
  });

  test('is for nobody else', async (t) => {
    const started = await site(t);
    const body = { spiffeID, audience: ['db'] };
    await assert.rejects(mint(started, body, stranger), failsWith('HANSA_FORBIDDEN'));
  });

  for (const [name, body, code] of [
    ['no JSON', '{', 'HANSA_BAD_REQUEST'],
    ['a list', [], 'HANSA_BAD_REQUEST'],
    ['an unknown field', { spiffeID, audience: ['a'], x: 1 }, 'HANSA_BAD_REQUEST'],
    ['no SPIFFE ID', { audience: ['a'] }, 'HANSA_BAD_REQUEST'],
    [
      'a reserved SPIFFE ID',
      { spiffeID: 'spiffe://lubeck.example/hansa/x', audience: ['a'] },
      'HANSA_FORBIDDEN',
    ],
    ['no audience', { spiffeID }, 'HANSA_INVALID'],
    ['an empty list of audiences', { spiffeID, audience: [] }, 'HANSA_BAD_REQUEST'],
    ['a text for a list of audiences', { spiffeID, audience: 'a' }, 'HANSA_INVALID'],
    ['an audience that is a number', { spiffeID, audience: [1] }, 'HANSA_INVALID'],
    ['a time that is too short', { spiffeID, audience: ['a'], ttlSeconds: 9 }, 'HANSA_INVALID'],
    ['a time that is too long', { spiffeID, audience: ['a'], ttlSeconds: 3601 }, 'HANSA_INVALID'],
  ] as const) {
    test(`is refused with ${name}`, async (t) => {
      await assert.rejects(mint(await site(t), body), failsWith(code));
    });
  }
});

suite('validating an SVID', () => {
  test('tells what a good token says, and which rule a bad one breaks', async (t) => {
    const started = await site(t);
    const { token, keyId } = await mint(started, { spiffeID, audience: ['db'] });
    const good = await validate(started, { token, audience: 'db' });
    assert(good.valid);
    assert.deepEqual([good.type, good.spiffeId, good.keyId], ['JWT-SVID', spiffeID, keyId]);
    const bad = await validate(started, { token: `${token}x`, audience: 'db' });
    assert(!bad.valid);
    assert.deepEqual([bad.code, bad.rule], ['HANSA_JWT_INVALID', 'base64url']);
  });

  test('tells what a good chain says, and which rule a bad one breaks', async (t) => {
    const started = await site(t);
    const key = await generateP256(systemRandom);
    const { chain, serialHex } = await started.authority.issue({
      spiffeId: SpiffeId.parse(spiffeID),
      publicKey: PublicKey.of(key),
    });
    const certificates = chain.map((der) => certificatePem(der)).join('');
    const good = await validate(started, { certificates });
    assert(good.valid);
    assert.deepEqual(
      [good.type, good.spiffeId, good.serialNumber, good.authority],
      ['X509-SVID', spiffeID, serialHex, started.authority.certificate.fingerprint],
    );
    for (const [text, rule] of [
      [started.authority.bundle.pem, 'leaf-not-ca'],
      ['', 'no-certificate'],
      ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', 'malformed-der'],
      [certificates.repeat(9), 'size-limit'],
    ] as const) {
      const bad = await validate(started, { certificates: text });
      assert(!bad.valid);
      assert.deepEqual([bad.code, bad.rule], ['HANSA_CERTIFICATE_INVALID', rule]);
    }
  });

  test('is for those who may see whom the site believes', async (t) => {
    const started = await site(t);
    const body = { certificates: '' };
    await assert.rejects(validate(started, body, stranger), failsWith('HANSA_FORBIDDEN'));
  });

  for (const [name, body] of [
    ['neither kind', {}],
    ['both kinds', { token: 'x', audience: 'a', certificates: '' }],
    ['an unknown field', { token: 'x', audience: 'a', trust: 'me' }],
    ['no audience', { token: 'x' }],
    ['an empty audience', { token: 'x', audience: '' }],
    ['a token that is no text', { token: 1, audience: 'a' }],
    ['certificates that are no text', { certificates: [] }],
  ] as const) {
    test(`is refused with ${name}`, async (t) => {
      await assert.rejects(
        validate(await site(t), body),
        (error) => hasCode(error, 'HANSA_BAD_REQUEST') || hasCode(error, 'HANSA_INVALID'),
      );
    });
  }
});
