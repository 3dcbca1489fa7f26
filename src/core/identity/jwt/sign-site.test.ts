import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { withErrorCode } from '../../store/conformance/harness.ts';
import { testSite } from '../authority/test-vault.ts';
import { signJwtSvid, signSiteJwtSvid } from './sign-svid.ts';
import { validateJwtSvid } from './svid-validator.ts';

test('the site can have a JWT-SVID of its own, and no workload can', async () => {
  const { authority, clock } = await testSite();
  const { trustDomain } = authority;
  const request = {
    key: authority.jwtSigner,
    trustDomain,
    audience: ['app1'],
    nowMs: clock.now(),
  };
  const { token, id } = await signSiteJwtSvid(request);
  assert.equal(id.toString(), 'spiffe://lubeck.example/hansa/site');
  const bundles = { bundleFor: () => authority.bundle };
  const valid = validateJwtSvid(token, 'app1', bundles, clock.now());
  assert.equal(valid.id.toString(), 'spiffe://lubeck.example/hansa/site');
  const subject = SpiffeId.of(trustDomain, 'hansa', 'site');
  await assert.rejects(signJwtSvid({ ...request, subject }), withErrorCode('HANSA_FORBIDDEN'));
});
