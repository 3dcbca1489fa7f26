// Envoy's external authorization, called with Envoy's own messages by a process that the site
// attests. The site allows calls that a grant covers, and denies all others without a reason.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { until } from '../e2e/until.ts';
import { missingTools } from './tool.ts';
import { startWorkloadSite, type WorkloadSite } from './workload-site.ts';

const web = 'spiffe://bruges.example/web';
const skip = await missingTools('ext-authz');
const allowed = { code: 0, message: '', httpStatus: 0, body: '' };
const denied = { code: 7, message: 'denied', httpStatus: 403, body: 'denied' };

suite('an Envoy that asks', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let envoy: string;
  let stranger: string;
  const folder = mkdtempSync(join(tmpdir(), 'hansa-ext-authz-'));

  const ask = async (
    question: { readonly by?: string; readonly principal?: string; readonly address?: string } = {},
    ...certificate: readonly string[]
  ) => {
    const { by = envoy, principal = web, address = '192.0.2.7' } = question;
    const { lines, stderr } = await lubeck.run(
      by,
      lubeck.socket,
      'db',
      principal,
      address,
      ...certificate,
    );
    assert.equal(lines.length, 1, stderr);
    return lines[0];
  };
  const grant = (spec: object = {}) =>
    lubeck.apply(federationGrantKind, 'bruges-db', {
      peer: 'bruges.example',
      scopes: ['read'],
      offers: ['db'],
      nodeInstances: { ids: [web] },
      networks: { unrestricted: true },
      sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
      ...spec,
    });
  /** What peering does; these sites run without it. */
  const peerIs = (state: string) => lubeck.setPeerState('bruges.example', state);

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    bruges = await startWorkloadSite('bruges.example');
    envoy = await lubeck.program('envoy', 'ext-authz');
    stranger = await lubeck.program('stranger', 'ext-authz');
    const made = [
      await lubeck.apply(workloadEntryKind, 'db', {
        spiffeID: 'spiffe://lubeck.example/db',
        selectors: [`unix:path:${envoy}`],
        federatesWith: ['bruges.example'],
      }),
      await lubeck.apply(serviceOfferKind, 'db', { spiffeID: 'spiffe://lubeck.example/db' }),
      await lubeck.apply(federationPeerKind, 'bruges.example', {
        url: 'https://bruges.example:8443',
      }),
    ];
    for (const answer of made) assert.equal(answer.status, 201, answer.text);
    await lubeck.federateWith(bruges);
    await peerIs('active');
  });
  after(async () => {
    await lubeck.stop();
    await bruges.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('is denied without a grant, and allowed with one', async () => {
    assert.deepEqual(await ask(), denied);
    assert.equal((await grant()).status, 201);
    assert.deepEqual(await ask(), allowed);
  });

  test('is denied for other callers and from other addresses', async () => {
    await grant();
    assert.deepEqual(await ask({ principal: 'spiffe://bruges.example/other' }), denied);
    assert.deepEqual(await ask({ principal: 'spiffe://novgorod.example/web' }), denied);
    assert.deepEqual(await ask({ address: '198.51.100.7' }), denied);
    assert.deepEqual(await ask(), allowed);
  });

  test('is denied while the peer is suspended', async () => {
    await grant();
    await peerIs('suspended');
    assert.deepEqual(await ask(), denied);
    await peerIs('active');
    assert.deepEqual(await ask(), allowed);
  });

  test('is denied where it is not the workload that serves the offer', async () => {
    await grant();
    assert.deepEqual(await ask({ by: stranger }), denied);
  });

  test('with a certificate is believed only as far as the bundle of the peer goes', async () => {
    await grant();
    const certificate = async (site: WorkloadSite, id: string) => {
      const file = join(folder, `${site.trustDomain}.pem`);
      writeFileSync(file, await site.mint(id));
      return file;
    };
    assert.deepEqual(await ask({}, await certificate(bruges, web)), allowed);
    const other = await certificate(lubeck, 'spiffe://lubeck.example/web');
    assert.deepEqual(await ask({}, other), denied);
  });

  test('is allowed for workloads of the site, and of a federation without a peer, that the offer names', async () => {
    const visby = await startWorkloadSite('visby.example');
    try {
      await lubeck.federateWith(visby);
      const own = 'spiffe://lubeck.example/web';
      const foreign = 'spiffe://visby.example/ns/shop';
      const answers = async () => [
        await ask({ principal: own }),
        await ask({ principal: foreign }),
        await ask({ principal: 'spiffe://lubeck.example/hansa/site' }),
      ];
      const spec = { spiffeID: 'spiffe://lubeck.example/db' };
      assert.deepEqual(await answers(), [denied, denied, denied]);
      assert.match(lubeck.log(), /lubeck\.example is this site, so no grant is needed, but/);
      assert.ok(!lubeck.log().includes('lubeck.example is not a peer'));
      const callers = { ids: [foreign], trustDomains: ['lubeck.example'] };
      await lubeck.apply(serviceOfferKind, 'db', { ...spec, callers });
      // The entry of the Envoy does not federate with it yet.
      assert.deepEqual(await answers(), [allowed, denied, denied]);
      await lubeck.apply(workloadEntryKind, 'db', {
        ...spec,
        selectors: [`unix:path:${envoy}`],
        federatesWith: ['bruges.example', 'visby.example'],
      });
      assert.deepEqual(await answers(), [allowed, allowed, denied]);
      const file = join(folder, 'own.pem');
      writeFileSync(file, await lubeck.mint(own));
      assert.deepEqual(await ask({ principal: own }, file), allowed);
      await lubeck.apply(serviceOfferKind, 'db', { ...spec, callers: {} });
      assert.deepEqual(await answers(), [denied, denied, denied]);
    } finally {
      await visby.stop();
    }
  });

  test('is denied for reasons that the operator can read', async () => {
    await grant({ networks: { ids: ['backbone'] } });
    assert.deepEqual(await ask(), denied);
    assert.match(lubeck.log(), /denied access to an offer.*bruges-db is limited to networks/);
    assert.match(lubeck.metrics.expose(), /hansa_workload_checks_total\{result="grant"\} [1-9]/);
    // Denials are gathered for a minute.
    lubeck.clock.move(61_000);
    await until(async () => {
      const { text } = await lubeck.admin.get('/hansa/v1/audit/events?limit=500');
      return text.includes('offer.access');
    });
  });
});
