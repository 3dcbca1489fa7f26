import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { firstByMs, keysCollection } from '../keys/key-memory.ts';
import { keyTiming } from '../keys/key-cache.ts';
import { issuer, type PeerScene, peerScene } from './test-peer-scene.ts';

const hourMs = 3_600_000;

/** The status of the Cluster would show it. */
const reasonOf = (scene: PeerScene): string | undefined => scene.state()?.failure?.reason;

suite('the keys of a cluster of a peer', () => {
  test('come from the site of the peer, for the cluster that is asked about', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { a: 0 } });
    await scene.fetch();
    assert.deepEqual(scene.ids(), ['a']);
    assert.deepEqual(scene.asked, ['bruges.example /hansa/federation/v1/clusters/app1/keys']);
    assert.equal(scene.keys.current(scene.cluster())?.from, 'peer');
  });

  const refused: readonly [
    what: string,
    reason: string,
    answer: Parameters<PeerScene['answer']>[0],
  ][] = [
    ['about another cluster', 'AnotherCluster', { keys: { b: 1 }, cluster: 'app2' }],
    ['with another issuer', 'IssuerMismatch', { keys: { b: 1 }, issuer: 'https://evil.example' }],
    ['without keys', 'InvalidKeys', { keys: {} }],
    ['that is no JSON', 'InvalidKeys', { body: '<html>' }],
    ['that is a list', 'InvalidKeys', { body: '[]' }],
    ['without a cluster', 'InvalidKeys', { keys: { b: 1 }, cluster: 7 }],
    ['with a line break in the cluster', 'InvalidKeys', { keys: { b: 1 }, cluster: 'app1\n' }],
    ['with a line break in the issuer', 'InvalidKeys', { keys: { b: 1 }, issuer: `${issuer}\n` }],
    ['with a negative age', 'InvalidKeys', { keys: { b: 1 }, ageSeconds: -1 }],
    ['with an age that is no number', 'InvalidKeys', { keys: { b: 1 }, ageSeconds: '1' }],
    ['with too many values', 'InvalidKeys', { body: JSON.stringify(Array(5000).fill(1)) }],
    ['with too many bytes', 'TooLarge', { body: 'x'.repeat(200_000) }],
    ['with HTTP 500', 'UnexpectedStatus', { status: 500 }],
    ['with HTTP 429', 'UnexpectedStatus', { status: 429 }],
    ['that it has no keys now', 'UnexpectedStatus', { status: 503 }],
    ['with a redirect', 'UnexpectedStatus', { status: 302 }],
  ];
  for (const [what, reason, answer] of refused) {
    test(`are not taken from an answer ${what}, and those of before stay`, async () => {
      const scene = await peerScene();
      scene.answer({ keys: { a: 0 } });
      await scene.fetch();
      scene.answer(answer);
      await scene.clock.advance(keyTiming.refreshMs);
      await scene.fetch();
      assert.equal(reasonOf(scene), reason);
      assert.deepEqual(scene.ids(), ['a']);
    });
  }

  test('of an answer about another cluster are reported with the peer and the reason', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { b: 1 }, cluster: 'app2' });
    await scene.fetch();
    assert.equal(scene.ids(), undefined);
    const [record, ...more] = scene.refusals;
    assert.deepEqual(more, []);
    assert.equal(record?.actor.user, 'spiffe://bruges.example/hansa/site');
    assert.equal(record.verb, 'cluster.refuse');
    assert.equal(record.peer, 'bruges.example');
    assert.match(
      record.reason ?? '',
      /^bruges\.example answers for its cluster app2, but this site asked about app1\./,
    );
  });

  for (const status of [401, 403, 404]) {
    test(`end at once with HTTP ${status}, also in the store`, async () => {
      const scene = await peerScene();
      scene.answer({ keys: { a: 0 } });
      await scene.fetch();
      assert.ok(scene.store.get(keysCollection, 'far') !== undefined);
      scene.answer({ status });
      await scene.clock.advance(keyTiming.refreshMs);
      await scene.fetch();
      assert.equal(reasonOf(scene), 'NotGranted');
      assert.equal(scene.ids(), undefined);
      assert.equal(scene.store.get(keysCollection, 'far'), undefined);
    });
  }

  for (const [what, change] of [
    ['is suspended', { desiredState: 'suspended' }],
    ['is revoked', { state: 'revoked' }],
    ['rejects this site', { cause: 'Refused', state: 'degraded' }],
    ['says that it does not grant the cluster', { clusters: ['app2'] }],
    ['is another peering with the same site', { uid: 'u2' }],
    ['has started over with new keys', { reenrolments: 1 }],
    ['is gone', undefined],
  ] as const) {
    test(`end at once when the peer ${what}, without a call`, async () => {
      const scene = await peerScene();
      scene.answer({ keys: { a: 0 } });
      await scene.fetch();
      assert.equal(scene.keys.usesKeysOf('bruges.example'), true);
      assert.equal(scene.keys.usesKeysOf('reval.example'), false);
      await scene.peer(change);
      assert.equal(scene.keys.usesKeysOf('bruges.example'), false);
      assert.equal(scene.ids(), undefined);
      // The site may ask the peer as it is now.
      if (change !== undefined && ('uid' in change || 'reenrolments' in change)) return;
      const { length } = scene.asked;
      await assert.rejects(scene.refresh(), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
      assert.equal(scene.asked.length, length);
    });
  }

  test('are fetched at once when the peer is trusted again', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { a: 0 } });
    await scene.peer({ desiredState: 'suspended' });
    for (let failures = 0; failures < 5; failures++) {
      await scene.clock.advance(keyTiming.refreshMs);
      await scene.fetch();
    }
    await scene.peer({});
    await scene.fetch();
    assert.deepEqual(scene.ids(), ['a']);
  });

  test('outlive a silent peer, until they are 24 hours old since the peer fetched them', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { a: 0 }, ageSeconds: 20 * 3600 });
    await scene.fetch();
    scene.answer('silence');
    await scene.peer({ state: 'degraded', cause: 'Unreachable' });
    await scene.clock.advance(3 * hourMs);
    assert.deepEqual(scene.ids(), ['a']);
    await scene.clock.advance(hourMs);
    assert.equal(scene.ids(), undefined);
  });

  test('outlive a restart while the peer is dark, in the same peering only', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { a: 0 } });
    await scene.fetch();
    scene.answer('refused');
    scene.restart();
    assert.equal(scene.ids(), undefined);
    await scene.fetch();
    assert.deepEqual(scene.ids(), ['a']);
    await scene.peer({ uid: 'u2' });
    scene.restart();
    await scene.fetch();
    assert.equal(scene.ids(), undefined);
  });

  test('do not include a key that a cluster of this site proves, even if another published it first', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { a: 0, b: 1 } });
    await scene.fetch();
    await scene.clock.advance(2 * firstByMs);
    // The peer saw the public key of app9 before app9 was registered here.
    scene.site.apiServer('app9.example').publish(issuer, { a: 0 });
    await scene.site.create('app9', { issuer, apiServer: 'https://app9.example' });
    await scene.fetch('app9');
    assert.deepEqual(scene.ids('app9'), ['a']);
    assert.deepEqual(scene.ids(), ['b']);
    await scene.clock.advance(keyTiming.refreshMs);
    await scene.fetch();
    assert.deepEqual(scene.ids(), ['b']);
    assert.deepEqual(scene.state()?.copiedFrom, ['app9']);
  });

  for (const [when, waitMs, expected] of [
    ['an hour before', firstByMs, ['a', 'b']],
    ['a little before', firstByMs - 60_000, ['b']],
  ] as const) {
    test(`that were published ${when} a cluster of this site that proves no key: ${expected.join()} stay`, async () => {
      const scene = await peerScene();
      scene.answer({ keys: { a: 0, b: 1 } });
      await scene.fetch();
      await scene.clock.advance(waitMs);
      // It saw the public key of the peer's cluster.
      const copier = scene.site.apiServer('app9.example');
      copier.publish(issuer, { a: 0 });
      copier.signer = undefined;
      await scene.site.create('app9', { issuer, apiServer: 'https://app9.example' });
      await scene.fetch('app9');
      await scene.fetch();
      assert.deepEqual(scene.ids(), expected);
      assert.deepEqual(scene.ids('app9'), ['a']);
    });
  }

  test('do not displace those of another peer, however old the peer says that they are', async () => {
    const scene = await peerScene();
    await scene.peer({ clusters: ['app7'] }, 'riga.example');
    const honest = { trustDomain: 'riga.example', cluster: 'app7' };
    await scene.site.create('honest', { issuer, peer: honest });
    scene.answer({ keys: { a: 0 } }, 'app7');
    await scene.fetch('honest');
    await scene.clock.advance(firstByMs / 2);
    scene.answer({ keys: { a: 0 }, ageSeconds: 86_000 });
    await scene.fetch();
    assert.deepEqual(scene.ids(), ['a']);
    await scene.clock.advance(keyTiming.refreshMs);
    await scene.fetch('honest');
    const { failure, copiedFrom } = scene.keys.stateOf(scene.cluster('honest')) ?? {};
    assert.deepEqual([failure, copiedFrom], [undefined, []]);
  });

  test('may be those of the same cluster by another name', async () => {
    const scene = await peerScene();
    scene.answer({ keys: { a: 0 } });
    await scene.fetch();
    await scene.clock.advance(2 * firstByMs);
    await scene.site.create('alias', {
      issuer,
      peer: { trustDomain: 'bruges.example', cluster: 'app1' },
    });
    await scene.fetch('alias');
    assert.deepEqual(scene.ids('alias'), ['a']);
  });
});
