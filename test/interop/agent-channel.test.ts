// The channel of agents, called by a client that shares no code with the site: grpc-go for the wire,
// crypto/tls for the exporter, and messages written by hand from proto/agent.proto.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { Fleet, fleetLabels, joinFleet } from '../../bench/agent-fleet.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { missingTools } from './tool.ts';
import { startWorkloadSite, type WorkloadSite } from './workload-site.ts';

const skip = await missingTools('agent-load');
const agents = 3;

suite('a client of grpc-go as several agents', { skip }, () => {
  let lubeck: WorkloadSite;
  let fleet: Fleet;

  const entry = async (name: string): Promise<void> => {
    const answer = await lubeck.apply(workloadEntryKind, name, {
      spiffeID: `spiffe://lubeck.example/${name}`,
      selectors: ['unix:uid:4000000'],
      agents: { selector: { matchLabels: fleetLabels } },
    });
    assert.equal(answer.status, 201, answer.text);
  };

  before(async () => {
    lubeck = await startWorkloadSite('lubeck.example');
    const { trustDomain, url } = lubeck;
    const site = { trustDomain, url, caFile: join(lubeck.dataDir, 'ca.pem') };
    const identities = await joinFleet(lubeck.admin, site, temporaryFolder(), agents);
    for (const name of ['db', 'web']) await entry(name);
    fleet = await Fleet.open(
      '-api=hansa',
      `-address=${new URL(url).host}`,
      `-trust-domain=${trustDomain}`,
      `-identities=${identities}`,
    );
  });
  after(async () => {
    await fleet?.close();
    await lubeck?.stop();
  });

  test('gets its state', async () => {
    await fleet.connect(agents);
  });

  test('is told of a new entry', async () => {
    await fleet.expect('spiffe://lubeck.example/later', () => entry('later'));
  });

  test('gets SVIDs for the keys that it proves, and each is in the audit log', async () => {
    const { issued } = await fleet.sign(0.2, 5);
    assert.ok(issued >= 5 * agents, `${issued} were issued`);
    const { text } = await lubeck.admin.get('/hansa/v1/audit/events?limit=500');
    assert.match(text, /hansa\/agent\/load-0/);
  });
});
