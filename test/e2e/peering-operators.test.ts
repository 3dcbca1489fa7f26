// What operators of two real sites do with invitations and peers, and what each of them sees of it.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { hansa } from './daemon.ts';
import { type PeeringSite, startPair } from './peering-pair.ts';

suite('operators of two sites', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  before(async () => {
    [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  test('are asked before a peer is deleted, as before it is revoked', async () => {
    const peer = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'FederationPeer',
      metadata: { name: 'reval.example' },
      spec: { url: 'https://reval.example:8443/' },
    };
    await lubeck.must(['apply', '-f', '-'], JSON.stringify(peer));
    const { dataDir } = lubeck.daemon;
    const asked = await hansa(['delete', 'peer', 'reval.example', '--data-dir', dataDir]);
    assert.equal(asked.code, 2);
    assert.match(asked.stderr, /reval\.example\? .*stop trusting each other at once.*--yes/);
    const tried = ['delete', 'peer', 'reval.example', '--dry-run', '--data-dir', dataDir];
    assert.equal((await hansa(tried)).code, 0);
    await lubeck.must(['get', 'peer', 'reval.example']);
    await lubeck.must(['delete', 'peer', 'reval.example']);
    assert.equal((await lubeck.run(['get', 'peer', 'reval.example'])).code, 4);
  });
});
