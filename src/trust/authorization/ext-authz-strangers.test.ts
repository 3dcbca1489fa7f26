// What a program that asks with `source.certificate` makes a site verify.

import assert from 'node:assert/strict';
import { create } from '@bufbuild/protobuf';
import { test } from 'node:test';
import { CheckRequestSchema } from '../../../proto/gen/ext_authz_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { strangerRate, verificationMs } from '../../core/identity/x509/chain-verifier.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { BundleTable, ecKey, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { authorizationApi, type AuthorizationApiOptions } from './authorization-api.ts';
import type { AccessDecision } from './ext-authz.ts';

const web = 'spiffe://bruges.example/web';
const root = forgeRoot('bruges.example');

/** A workload `db` of each user, that may ask about the offer `db`. The caller is of a peer, and no grant exists. */
function scene() {
  const decisions: AccessDecision[] = [];
  const offer = {
    metadata: { name: 'db' },
    spec: { spiffeID: 'spiffe://lubeck.example/db' },
  };
  const options = {
    clock: new VirtualClock(Date.now()),
    bundles: new BundleTable().set('bruges.example', root),
    delivery: { entriesOf: () => [{ id: SpiffeId.parse('spiffe://lubeck.example/db') }] },
    connections: { get: (peer: string) => ({ process: { uid: Number(peer) } }) },
    federationState: {
      current: {
        offers: new Map([['db', offer]]),
        peers: new Map(),
        grantsByPeer: new Map(),
        keptByPeering: new Set(['bruges.example']),
      },
    },
    outOfContact: () => undefined,
    decided: (decision: AccessDecision) => void decisions.push(decision),
  } as unknown as AuthorizationApiOptions;
  const { Check: check } = authorizationApi(options);
  const ask = (uid: number, der: Buffer): Promise<AccessDecision> =>
    new Promise((resolve, reject) => {
      const request = create(CheckRequestSchema, {
        attributes: {
          source: { certificate: encodeURIComponent(certificatePem(der)) },
          contextExtensions: { offer: 'db' },
        },
      });
      const answer = (error: Error | null): void => {
        if (error === null) resolve(decisions.pop() as AccessDecision);
        else reject(error);
      };
      (check as (call: object, answer: (error: Error | null) => void) => void)(
        { request, getPeer: () => String(uid) },
        answer,
      );
    });
  return { ask };
}

const reasonOf = (decision: AccessDecision): string => (decision.allowed ? '' : decision.reason);

test('a user whose programs present wrong signatures over and over is denied, and others are not', async () => {
  const { ask } = scene();
  const other = ecKey();
  const wrong = (): Buffer => forgeLeaf(root, web, { signingKey: other }).der;
  const same = wrong();
  const most = strangerRate.burst / verificationMs;
  // The same chain again costs nothing.
  for (let at = 0; at < 2 * most; at++) assert.match(reasonOf(await ask(1000, same)), /signature/);
  for (let at = 1; at < most; at++)
    assert.match(reasonOf(await ask(1000, wrong())), /\(signature;/);
  assert.match(reasonOf(await ask(1000, wrong())), /too many certificates with wrong signatures/);
  const genuine = await ask(1001, forgeLeaf(root, web).der);
  assert.equal(genuine.allowed ? '' : genuine.id?.toString(), web, reasonOf(genuine));
});
