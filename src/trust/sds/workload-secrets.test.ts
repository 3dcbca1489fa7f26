import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fromBinary } from '@bufbuild/protobuf';
import { SecretSchema } from '../../../proto/gen/sds_pb.ts';
import { bundles, secrets, shown, twoSvids } from './test-secrets.ts';
import type { WorkloadSecrets } from './workload-secrets.ts';

const web = 'spiffe://bruges.example/web';
const both = [bundles.bruges, bundles.spire];

function read(from: WorkloadSecrets, name: string) {
  const found = from.get(name);
  return found && shown(fromBinary(SecretSchema, found.bytes));
}

const pem = { chain: '-----BEGIN CERTIFICATE-----', key: '-----BEGIN PRIVATE KEY-----' };

describe('the secrets of a workload', () => {
  test('are its SVIDs, by identity, the first of them as default', async () => {
    const made = await secrets();
    for (const name of [
      'default',
      'spiffe://lubeck.example/web',
      'spiffe://lubeck.example/batch',
    ]) {
      assert.deepEqual(read(made, name), { name, ...pem });
    }
    const [one, other] = ['default', 'spiffe://lubeck.example/batch'].map((name) => made.get(name));
    assert.notEqual(one?.version, other?.version);
  });

  test('are the authorities of its own trust domain, under both names', async () => {
    const made = await secrets();
    for (const name of ['ROOTCA', 'spiffe://lubeck.example']) {
      assert.deepEqual(read(made, name), { name, trustDomains: ['lubeck.example'], matchers: [] });
    }
  });

  test('are those of other trust domains, of a peer only whom grants name', async () => {
    const made = await secrets({ federated: both, peers: { 'bruges.example': [web] } });
    assert.deepEqual(read(made, 'spiffe://spire.example'), {
      name: 'spiffe://spire.example',
      trustDomains: ['spire.example'],
      matchers: [],
    });
    assert.deepEqual(read(made, 'spiffe://bruges.example'), {
      name: 'spiffe://bruges.example',
      trustDomains: ['bruges.example'],
      matchers: [`exact ${web}`],
    });
  });

  test('are all authorities together, without letting in whom no grant names', async () => {
    const matchers = async (peers: Record<string, 'all' | string[]>) => {
      const { trustDomains, matchers: found } = read(
        await secrets({ federated: both, peers }),
        'ALL',
      ) as { trustDomains: string[]; matchers: string[] };
      return [trustDomains, found];
    };
    const all = ['lubeck.example', 'bruges.example', 'spire.example'];
    assert.deepEqual(await matchers({}), [all, []]);
    assert.deepEqual(await matchers({ 'bruges.example': 'all' }), [all, []]);
    assert.deepEqual(await matchers({ 'bruges.example': [web] }), [
      all,
      ['prefix spiffe://lubeck.example/', `exact ${web}`, 'prefix spiffe://spire.example/'],
    ]);
    assert.deepEqual(await matchers({ 'bruges.example': [] }), [
      ['lubeck.example', 'spire.example'],
      [],
    ]);
  });

  test('hold nothing of a peer of whom no grant names anybody', async () => {
    const made = await secrets({ federated: both, peers: { 'bruges.example': [] } });
    assert.equal(made.get('spiffe://bruges.example'), undefined);
  });

  for (const name of [
    '',
    'Default',
    'ROOTCA ',
    'spiffe://novgorod.example',
    'spiffe://lubeck.example/other',
    'spiffe://lubeck.example/',
    'lubeck.example',
    '__proto__',
  ]) {
    test(`hold nothing under the name ${JSON.stringify(name)}`, async () => {
      assert.equal((await secrets({ federated: both })).get(name), undefined);
    });
  }

  test('are told without their special names to whoever names none', async () => {
    const made = await secrets({ federated: both, peers: { 'bruges.example': [] } });
    assert.deepEqual(
      made.all().map(({ name }) => name),
      [
        'spiffe://lubeck.example',
        'spiffe://spire.example',
        'spiffe://lubeck.example/web',
        'spiffe://lubeck.example/batch',
      ],
    );
  });

  test('have another version where anything is another, and else the same', async () => {
    const svids = await twoSvids();
    const versions = [
      await secrets({ svids }),
      await secrets({ svids, federated: both }),
      await secrets({ svids, federated: both, peers: { 'bruges.example': [web] } }),
      await secrets({ svids, federated: both, peers: { 'bruges.example': 'all' } }),
      await secrets({ federated: both }),
    ].map(({ version }) => version);
    assert.equal(new Set(versions).size, versions.length);
    assert.equal((await secrets({ svids, federated: both })).version, versions[1]);
  });

  test('let nobody pass in the place of a trust domain that is gone', async () => {
    const made = await secrets();
    const closed = made.nobody('spiffe://bruges.example');
    assert.ok(closed !== undefined);
    assert.deepEqual(shown(fromBinary(SecretSchema, closed.bytes))['matchers'], [
      'exact spiffe://nobody.invalid',
    ]);
    for (const name of ['default', 'ALL', 'spiffe://bruges.example/web', 'nonsense']) {
      assert.equal(made.nobody(name), undefined);
    }
  });
});
