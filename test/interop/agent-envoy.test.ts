// Envoy at a real agent, with Envoy's own messages: secret discovery and external authorization.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../src/api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { until } from '../e2e/until.ts';
import { type SiteAgent, startSiteAgent } from './site-agent.ts';
import { missingTools } from './tool.ts';
import { startWorkloadSite, type WorkloadSite } from './workload-site.ts';

interface Secrets {
  readonly secrets: readonly {
    readonly name: string;
    readonly uri?: string;
    readonly serial?: string;
    readonly authorities?: Readonly<Record<string, number>>;
    readonly matchers?: readonly string[];
  }[];
}

const skip = await missingTools('ext-authz', 'sds');
const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://bruges.example/web';
const peer = 'spiffe://bruges.example';
const allowed = { code: 0, message: '', httpStatus: 0, body: '' };
const denied = { code: 7, message: 'denied', httpStatus: 403, body: 'denied' };

suite('an Envoy at an agent', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let crane: SiteAgent;
  let asking: string;
  let discovering: string;
  let stranger: string;

  /** Until the answer of ext_authz is this one: a change reaches the agent a moment later. */
  const answers = async (wanted: object, by = asking, principal = web): Promise<void> => {
    let last: unknown;
    await until(
      async () => {
        const { lines, stderr } = await crane.run(by, crane.socket, 'db', principal, '192.0.2.7');
        assert.equal(lines.length, 1, stderr);
        [last] = lines;
        return isDeepStrictEqual(last, wanted);
      },
      () => `the last answer is ${JSON.stringify(last)}`,
    );
  };
  const secretsOf = async (program: string, ...names: readonly string[]) => {
    const { lines, stderr } = await crane.run(program, 'fetch', crane.socket, ...names);
    assert.equal(lines.length, 1, stderr);
    return (lines[0] as Secrets).secrets;
  };
  const grant = async (): Promise<void> => {
    const { status, text } = await lubeck.apply(federationGrantKind, 'bruges-db', {
      peer: 'bruges.example',
      scopes: ['read'],
      offers: ['db'],
      nodeInstances: { ids: [web] },
      networks: { unrestricted: true },
      sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
    });
    assert.ok(status < 300, text);
  };
  const revoke = () => lubeck.delete(federationGrantKind.plural, 'bruges-db');

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    bruges = await startWorkloadSite('bruges.example');
    crane = await startSiteAgent(lubeck, 'crane-1');
    asking = await lubeck.program('envoy', 'ext-authz');
    stranger = await lubeck.program('stranger', 'ext-authz');
    discovering = await lubeck.program('envoy-sds', 'sds');
    const made = [
      await lubeck.apply(workloadEntryKind, 'db', {
        spiffeID: db,
        selectors: [`unix:path:${asking}`],
        federatesWith: ['bruges.example'],
        agents: { names: ['crane-1'] },
      }),
      await lubeck.apply(workloadEntryKind, 'db-sds', {
        spiffeID: db,
        selectors: [`unix:path:${discovering}`],
        federatesWith: ['bruges.example'],
        agents: { names: ['crane-1'] },
      }),
      await lubeck.apply(serviceOfferKind, 'db', { spiffeID: db }),
      await lubeck.apply(federationPeerKind, 'bruges.example', {
        url: 'https://bruges.example:8443',
      }),
    ];
    for (const answer of made) assert.equal(answer.status, 201, answer.text);
    await lubeck.federateWith(bruges);
    await lubeck.setPeerState('bruges.example', 'active');
  });
  after(async () => {
    await crane?.stop();
    await Promise.all([lubeck?.stop(), bruges?.stop()]);
  });

  test('is allowed exactly while a grant covers the call', async () => {
    await answers(denied);
    await grant();
    await answers(allowed);
    await answers(denied, asking, 'spiffe://bruges.example/other');
    await answers(denied, stranger);
    await revoke();
    await answers(denied);
  });

  test('is denied while the peer is suspended', async () => {
    await grant();
    await answers(allowed);
    await lubeck.setPeerState('bruges.example', 'suspended');
    await answers(denied);
    await lubeck.setPeerState('bruges.example', 'active');
    await answers(allowed);
  });

  test('is allowed for the workloads of its site that the offer names', async () => {
    const own = 'spiffe://lubeck.example/web';
    await answers(denied, asking, own);
    await lubeck.apply(serviceOfferKind, 'db', { spiffeID: db, callers: { ids: [own] } });
    await answers(allowed, asking, own);
    await lubeck.apply(serviceOfferKind, 'db', { spiffeID: db, callers: {} });
    await answers(denied, asking, own);
  });

  test('gets its SVID and the bundle of its own trust domain as secrets', async () => {
    const [own, root] = await secretsOf(discovering, 'default', 'ROOTCA');
    assert.equal(own?.uri, db);
    assert.deepEqual(root, { name: 'ROOTCA', authorities: { 'lubeck.example': 1 }, matchers: [] });
  });

  test('gets the bundle of a peer, limited to the identities of the grant', async () => {
    await grant();
    const wanted = [{ name: peer, authorities: { 'bruges.example': 1 }, matchers: [web] }];
    await until(async () => isDeepStrictEqual(await secretsOf(discovering, peer), wanted));
    await revoke();
    await until(async () => (await secretsOf(discovering, peer)).length === 0);
  });
});
