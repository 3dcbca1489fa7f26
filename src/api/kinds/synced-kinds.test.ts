import assert from 'node:assert/strict';
import { test } from 'node:test';
import { validateObject } from '../resource-schema.ts';
import { clusterKind } from './cluster.ts';
import { syncedKindNames, syncedKinds } from './synced-kinds.ts';

test('each synced kind is listed by its own name', () => {
  const names = Object.entries(syncedKinds).map(([name, { kind }]) => [name, kind]);
  assert.deepEqual(
    names,
    syncedKindNames.map((name) => [name, name]),
  );
});

test('no synced kind is one that the site, an operator or a handshake creates', () => {
  for (const name of ['Site', 'Cluster', 'Agent', 'FederationPeer']) {
    assert.equal(Object.hasOwn(syncedKinds, name), false, name);
  }
  for (const kind of Object.values(syncedKinds)) assert.equal(kind.singleton, undefined);
});

test('a mark names kinds that can be synced, each once, and needs an API server', () => {
  const errors = (sync: unknown, spec: object = { apiServer: 'https://app1.example:6443' }) =>
    validateObject(
      clusterKind,
      {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Cluster',
        metadata: { name: 'app1' },
        spec: { issuer: 'https://kubernetes.default.svc', ...spec, sync },
      },
      undefined,
    )
      .map(({ field }) => field)
      .slice(0, 1);
  assert.deepEqual(errors({ kinds: ['SPIFFEFederation', 'JoinToken'] }), []);
  assert.deepEqual(errors({ kinds: [...syncedKindNames] }), []);
  assert.deepEqual(errors({}), ['spec.sync.kinds']);
  assert.deepEqual(errors({ kinds: [] }), ['spec.sync.kinds']);
  assert.deepEqual(errors({ kinds: ['Cluster'] }), ['spec.sync.kinds[0]']);
  assert.deepEqual(errors({ kinds: ['JoinToken', 'JoinToken'] }), ['spec.sync.kinds[1]']);
  assert.deepEqual(errors({ kinds: ['JoinToken'] }, {}), ['spec']);
});
