import assert from 'node:assert/strict';
import { test } from 'node:test';
import { managedByLabel, manager, originKey, serviceNameLabel } from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import { sourceKeysOf } from './source-keys.ts';
import type { SyncedMember } from './synced-member.ts';

const member = {
  clusterID: 'app1',
  services: {
    byKey: (key: string) =>
      ['shop/web', 'shop/api'].includes(key)
        ? ({ metadata: { name: key.slice('shop/'.length), namespace: 'shop' } } as Service)
        : undefined,
  },
} as unknown as SyncedMember;

const sliceOf = (service: string, more: Partial<EndpointSlice['metadata']> = {}): EndpointSlice =>
  ({
    metadata: {
      name: 'one',
      namespace: 'shop',
      labels: { [serviceNameLabel]: service, ...more.labels },
      annotations: more.annotations ?? {},
    },
  }) as unknown as EndpointSlice;

function rulesNamed(name: 'copies' | 'imports') {
  const asked: string[] = [];
  const refOf = ({ metadata }: Pick<Service, 'metadata'>): FederatedRef => {
    asked.push(metadata.name);
    return { scope: 'global', namespace: 'hansa-system', name: metadata.name };
  };
  return { name, refOf, asked };
}

test('targets that hear of the same change share its keys', () => {
  const rules = rulesNamed('copies');
  const change = { key: 'shop/one', old: sliceOf('web'), new: sliceOf('web') };
  const first = sourceKeysOf(change, member, rules);
  assert.equal(first.length, 1);
  const asked = rules.asked.length;
  assert.equal(sourceKeysOf(change, member, rules), first);
  assert.equal(rules.asked.length, asked);
});

test('copies and imports have keys of their own', () => {
  const [copies, imports] = [rulesNamed('copies'), rulesNamed('imports')];
  const change = { key: 'shop/one', old: undefined, new: sliceOf('web') };
  sourceKeysOf(change, member, copies);
  sourceKeysOf(change, member, imports);
  assert.deepEqual(imports.asked, ['web']);
});

test('a slice that moves to another Service has the keys of both', () => {
  const change = { key: 'shop/one', old: sliceOf('web'), new: sliceOf('api') };
  const keys = sourceKeysOf(change, member, rulesNamed('copies'));
  assert.deepEqual(
    keys.map(({ federated }) => federated.split('/').at(-1)),
    ['web', 'api'],
  );
});

test('a slice of a copy and a slice without a Service have no keys', () => {
  const rules = rulesNamed('copies');
  const own = sliceOf('web', {
    labels: { [managedByLabel]: manager },
    annotations: { [originKey]: 'app2' },
  });
  for (const slice of [own, sliceOf('unknown')]) {
    assert.deepEqual(sourceKeysOf({ key: 'k', old: undefined, new: slice }, member, rules), []);
  }
});
