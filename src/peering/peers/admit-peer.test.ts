import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { admitPeer } from './admit-peer.ts';

const kind = federationPeerKind as Kind;
const metadata = { name: 'bruges.example' } as Parameters<typeof admitPeer>[1]['metadata'];
const admit = (spec: object, live?: object) =>
  admitPeer(
    kind,
    { metadata, spec: { url: 'https://bruges.example:8443', ...spec } },
    live && { spec: live },
  );

suite('a FederationPeer', () => {
  test('is a symmetric platform, said or not', () => {
    admit({});
    admit({ peerKind: 'platform', spawnRole: 'symmetric' });
  });

  test('is refused with a value that nothing acts on, also where it is stored already', () => {
    for (const [field, value] of [
      ['peerKind', 'node'],
      ['spawnRole', 'parent'],
      ['spawnRole', 'child'],
      ['spawnMode', 'managed_child'],
      ['spawnMode', 'autonomous_peer'],
      ['spawnMode', 'cluster_member'],
    ] as const) {
      const refusal = { code: 'HANSA_INVALID', message: new RegExp(`spec\\.${field}.*${value}`) };
      assert.throws(() => admit({ [field]: value }), refusal);
      assert.throws(() => admit({ [field]: value }, { [field]: value }), refusal);
    }
  });

  test('names every such value at once', () => {
    assert.throws(() => admit({ peerKind: 'node', spawnRole: 'child' }), {
      message: /spec\.peerKind.*spec\.spawnRole/,
    });
  });

  test('is refused with a URL that is none, and other kinds are left alone', () => {
    assert.throws(() => admit({ url: 'https://user@bruges.example' }), { code: 'HANSA_INVALID' });
    admitPeer(siteKind, { metadata, spec: { peerKind: 'node' } }, undefined);
  });
});
