// Two sites whose Clusters mark the same cluster: one operates its SPIRE server, and the other changes nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spireScene } from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const spiffe = {
  ...federations['https_spiffe by default'],
  exposure: { host: 'federation.a.example' },
  federatesWith: [peerDomain],
};

test('a second site changes no object and no status of a server that another one operates', async () => {
  const lubeck = await spireScene();
  const app1 = await lubeck.register('app1');
  await lubeck.start();
  await app1.apply(spiffe);
  await lubeck.settle();
  const bruges = await spireScene({ site: 'bruges.example', clock: lubeck.clock });
  await bruges.register('app1');
  bruges.clusters.set('app1', app1);
  await lubeck.settle();
  const before = app1.find('spireservers', 'cluster')?.['status'];
  app1.writes.length = 0;
  // Two sites that undo each other's writes would never end.
  app1.breaks = () => app1.writes.length > 20;
  await bruges.start();
  await lubeck.settle(2 * 60_000);
  assert.deepEqual(app1.writes, []);
  assert.deepEqual(app1.find('spireservers', 'cluster')?.['status'], before);
  const condition = bruges.operated('app1');
  assert.equal(condition?.reason, 'OwnedByOthers');
  assert.match(condition.message, /by the Hansa site lubeck\.example/);
  await bruges.stop();
  await lubeck.stop();
});
