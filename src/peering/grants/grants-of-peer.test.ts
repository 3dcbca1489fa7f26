import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { grantsOf } from './grants-of-peer.ts';

const collection = federationGrantKind.plural;

async function storeWith(grants: Readonly<Record<string, string>>): Promise<Store> {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  for (const [name, peer] of Object.entries(grants)) await put(store, name, peer);
  return store;
}

async function put(store: Store, name: string, peer: string): Promise<void> {
  const value = Buffer.from(JSON.stringify({ metadata: { name }, spec: { peer } }));
  await store.commit({ put: [{ collection, name, encode: () => value }] });
}

const namesOf = (store: Store, peer: string): readonly string[] =>
  grantsOf(store, peer).map(({ metadata }) => metadata.name);

suite('the grants of a peer', () => {
  test('are all of its grants, in order of names, and no others', async () => {
    const store = await storeWith({ c: 'bruges', a: 'novgorod', b: 'bruges' });
    assert.deepEqual(namesOf(store, 'bruges'), ['b', 'c']);
    assert.deepEqual(namesOf(store, 'novgorod'), ['a']);
    assert.deepEqual(namesOf(store, 'lubeck'), []);
    assert.deepEqual(namesOf(store, 'constructor'), []);
  });

  test('follow every change', async () => {
    const store = await storeWith({ a: 'bruges', b: 'bruges' });
    assert.deepEqual(namesOf(store, 'bruges'), ['a', 'b']);
    await put(store, 'b', 'novgorod');
    assert.deepEqual(namesOf(store, 'bruges'), ['a']);
    assert.deepEqual(namesOf(store, 'novgorod'), ['b']);
    await store.commit({ delete: [{ collection, name: 'a' }] });
    assert.deepEqual(namesOf(store, 'bruges'), []);
  });

  test('are found without a search while no grant changes, whatever else does', async () => {
    const store = await storeWith({ a: 'bruges', b: 'novgorod' });
    const before = grantsOf(store, 'bruges');
    const value = Buffer.from('{}');
    await store.commit({ put: [{ collection: 'others', name: 'x', encode: () => value }] });
    assert.equal(grantsOf(store, 'bruges'), before);
    await put(store, 'c', 'novgorod');
    assert.notEqual(grantsOf(store, 'bruges'), before);
  });

  test('of two stores stay apart', async () => {
    const [one, other] = [await storeWith({ a: 'bruges' }), await storeWith({ b: 'bruges' })];
    assert.deepEqual(namesOf(one, 'bruges'), ['a']);
    assert.deepEqual(namesOf(other, 'bruges'), ['b']);
  });
});
