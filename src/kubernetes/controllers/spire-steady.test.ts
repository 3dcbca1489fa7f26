// What the SPIRE operator asks a cluster in memory for, when nothing changes, and what it still notices.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operatedScene } from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const exposure = { host: 'federation.a.example' };
const spiffe = { ...federations['https_spiffe by default'], exposure };
const federated = { ...spiffe, federatesWith: [peerDomain] };
const minuteMs = 60_000;

test('a steady state asks for each object without a watch twelve times an hour', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  app1.makeReady();
  await scene.settle(10 * minuteMs);
  app1.reads.length = 0;
  app1.writes.length = 0;
  await scene.settle(60 * minuteMs);
  assert.deepEqual(app1.writes, []);
  const times = new Map<string, number>();
  for (const read of app1.reads) times.set(read, (times.get(read) ?? 0) + 1);
  for (const [object, count] of times) assert.ok(count <= 12, `${object}: ${count}`);
  // Both that they are compared at all, and that watched objects need no request.
  assert.ok(times.has('roles/spire-server'), [...times.keys()].join());
  assert.ok(!times.has('services/spire-server'), [...times.keys()].join());
  await scene.stop();
});

test('a change of an object without a watch is repaired within six minutes', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle(2 * minuteMs);
  const before = app1.read('roles', 'spire-server', 'rules');
  app1.edit('roles', 'spire-server', (object) => ({ ...object, rules: [] }));
  await scene.settle(6 * minuteMs);
  assert.deepEqual(app1.read('roles', 'spire-server', 'rules'), before);
  await scene.stop();
});

test('a deleted object with a watch comes back at once', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle(2 * minuteMs);
  await app1.user.delete('/api/v1/namespaces/spire/services/spire-server-federation');
  await scene.settle(1000);
  assert.notEqual(app1.find('services', 'spire-server-federation'), undefined);
  await scene.stop();
});

test('a change of the SpireServer compares all objects again', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle(2 * minuteMs);
  // No watch shows it without its label.
  app1.edit('ingresses', 'spire-server-federation', (object) => ({
    ...object,
    metadata: { ...object.metadata, labels: {} },
  }));
  await app1.apply();
  await scene.settle();
  assert.deepEqual(app1.names('ingresses'), []);
  await scene.stop();
});
