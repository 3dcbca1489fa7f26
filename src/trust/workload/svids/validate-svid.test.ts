import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Caller } from '../../../core/access/identity.ts';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { hasCode } from '../../../core/errors/error.ts';
import { strangerRate, verificationMs } from '../../../core/identity/x509/chain-verifier.ts';
import { certificatePem } from '../../../core/identity/x509/pem.ts';
import {
  BundleTable,
  ecKey,
  forgeLeaf,
  forgeRoot,
} from '../../../core/identity/x509/test-forge.ts';
import { callRoute } from '../../../core/plane/test-request.ts';
import { type Verdict, validateRoute } from './validate-svid.ts';

const spiffeId = 'spiffe://lubeck.example/web';
const root = forgeRoot('lubeck.example');
const viewer = (user: string) => ({ user, groups: [] }) as unknown as Caller;

test('a viewer who sends wrong signatures over and over is refused for a while, and others are not', async () => {
  const clock = new VirtualClock(Date.now());
  const bundles = new BundleTable().set('lubeck.example', root);
  const route = validateRoute({ bundles, clock });
  const validate = async (user: string, der: Buffer): Promise<Verdict> => {
    const body = JSON.stringify({ certificates: certificatePem(der) });
    const { body: answer } = await callRoute(route, { caller: viewer(user), body });
    return JSON.parse(String(answer)) as Verdict;
  };
  const other = ecKey();
  const wrong = (): Buffer => forgeLeaf(root, spiffeId, { signingKey: other }).der;
  const same = wrong();
  const most = strangerRate.burst / verificationMs;
  // The same chain again costs nothing.
  for (let at = 0; at < 2 * most; at++) assert.equal((await validate('eve', same)).valid, false);
  for (let at = 1; at < most; at++) assert.equal((await validate('eve', wrong())).valid, false);
  const good = forgeLeaf(root, spiffeId).der;
  await assert.rejects(validate('eve', good), (error) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS'));
  assert.equal((await validate('ada', good)).valid, true);
  await clock.advance(1_000);
  assert.equal((await validate('eve', wrong())).valid, false);
});
