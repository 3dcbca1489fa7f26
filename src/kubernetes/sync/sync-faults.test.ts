// The sync under faults: what counts as a deletion, clusters that are away or hostile, and other sites.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { clusterSidePath } from './cluster-side-kind.ts';
import { TestMarkedCluster } from './test-marked-cluster.ts';
import { bruges, bundleSpec, runningScene, verbs } from './test-sync-scene.ts';

const federation = spiffeFederationKind;

/** With one object that the site has. */
async function synced() {
  const { scene, app1 } = await runningScene();
  await app1.apply(federation, bruges, bundleSpec());
  await scene.settle();
  assert.ok(scene.atSite(federation, bruges));
  return { scene, app1 };
}

const conditionOf = (scene: Awaited<ReturnType<typeof synced>>['scene'], name = 'app1') =>
  scene.clusterStatus(name)?.conditions?.find(({ type }) => type === 'ResourcesSynced');

describe('a deletion', () => {
  test('while the site is down is found when it starts', async () => {
    const { scene, app1 } = await synced();
    await scene.stop();
    await app1.remove(federation, bruges);
    await scene.start();
    assert.equal(scene.atSite(federation, bruges), undefined);
    await scene.stop();
  });

  test('while the cluster cannot be reached is found when it answers', async () => {
    const { scene, app1 } = await synced();
    app1.kube.isDown = true;
    app1.kube.endWatches('reset');
    await scene.clock.advance(10 * 60_000);
    assert.ok(scene.atSite(federation, bruges), 'a cluster that is away deletes nothing');
    assert.equal(conditionOf(scene)?.reason, 'Unreachable');
    app1.kube.put(federation.plural, '', bruges, undefined);
    app1.kube.isDown = false;
    await scene.clock.advance(2 * 60_000);
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.equal(conditionOf(scene)?.status, 'True');
    await scene.stop();
  });

  test('and a creation of the same name is one change at the site', async () => {
    const { scene, app1 } = await synced();
    await scene.stop();
    const uid = scene.atSite(federation, bruges)?.metadata.uid;
    await app1.remove(federation, bruges);
    await app1.apply(federation, bruges, bundleSpec('{"keys":[1]}'));
    await scene.start();
    assert.equal(scene.atSite(federation, bruges)?.metadata.uid, uid);
    assert.equal(
      scene.origin(federation, bruges)?.source?.uid,
      app1.find(federation, bruges)?.metadata.uid,
    );
    await app1.remove(federation, bruges);
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    await scene.stop();
  });

  test('that the role does not allow keeps the object, and the Cluster says so', async () => {
    const { scene, app1 } = await synced();
    await scene.allow('app1', { kinds: ['SPIFFEFederation'], verbs: ['create', 'patch'] });
    await app1.remove(federation, bruges);
    await scene.settle();
    assert.ok(scene.atSite(federation, bruges));
    assert.deepEqual(scene.clusterStatus('app1')?.sync, { accepted: 0, refused: 0, kept: 1 });
    await scene.allow('app1', { kinds: ['SPIFFEFederation'], verbs });
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    await scene.stop();
  });
});

describe('the site keeps an object', () => {
  test('when its CRD is deleted, and when the CRD comes back without it', async () => {
    const { scene, app1 } = await synced();
    await app1.undefine(federation, scene.settle);
    assert.ok(scene.atSite(federation, bruges));
    assert.equal(conditionOf(scene)?.reason, 'NotInstalled');
    app1.serve(federation);
    await scene.clock.advance(20 * 60_000);
    assert.ok(scene.atSite(federation, bruges));
    assert.deepEqual(scene.origin(federation, bruges), { cluster: 'app1', source: undefined });
    assert.deepEqual(scene.clusterStatus('app1')?.sync, { accepted: 0, refused: 0, kept: 1 });
    // It belongs to the cluster as before.
    await app1.apply(federation, bruges, bundleSpec('{"keys":[3]}'));
    await scene.settle();
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    await app1.remove(federation, bruges);
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    await scene.stop();
  });

  test('when its CRD is deleted and created again while the site is down', async () => {
    const { scene, app1 } = await synced();
    await scene.stop();
    await app1.undefine(federation, async () => undefined);
    app1.serve(federation);
    await scene.start();
    assert.ok(scene.atSite(federation, bruges));
    await scene.stop();
  });

  test('when another cluster is at the address, whatever is in it', async () => {
    const { scene } = await synced();
    await scene.stop();
    // Its CRDs have other UIDs, and its versions are higher.
    const other = new TestMarkedCluster('app1', scene.clock, [joinTokenKind, federation]);
    for (let at = 0; at < 50; at++) await other.apply(joinTokenKind, `t${at}`, tokenSpec);
    scene.clusters.set('app1', other);
    await scene.start();
    assert.ok(scene.atSite(federation, bruges));
    await scene.stop();
  });

  test('when etcd of the cluster is restored to a time before it', async () => {
    const { scene, app1 } = await runningScene();
    const backup = app1.kube.backup();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    app1.kube.restore(backup);
    await scene.clock.advance(10 * 60_000);
    assert.ok(scene.atSite(federation, bruges));
    // The versions of the cluster pass those of the object.
    for (let at = 0; at < 50; at++) await app1.apply(joinTokenKind, `t${at}`, tokenSpec);
    await scene.clock.advance(30 * 60_000);
    assert.ok(scene.atSite(federation, bruges));
    await scene.stop();
  });

  test('when etcd is restored with raised versions, if the annotation of its origin was removed before', async () => {
    for (const isRemoved of [true, false]) {
      const { scene, app1 } = await runningScene();
      const backup = app1.kube.backup();
      await app1.apply(federation, bruges, bundleSpec());
      await scene.settle();
      await scene.stop();
      const uid = scene.origin(federation, bruges)?.source?.uid ?? '';
      if (isRemoved) await scene.synced('app1').keep(federation, bruges, uid, undefined);
      app1.kube.restore(backup);
      for (let at = 0; at < 50; at++) await app1.apply(joinTokenKind, `t${at}`, tokenSpec);
      await scene.start();
      // Without that, the restore looks like a deletion by a user.
      assert.equal(scene.atSite(federation, bruges) !== undefined, isRemoved);
      await scene.stop();
    }
  });

  test('when the collection has more objects than the limit', async () => {
    const { scene, app1 } = await synced();
    for (let at = 0; at < 1001; at++) {
      await app1.apply(federation, `d${at}.example`, bundleSpec());
    }
    await scene.settle();
    assert.ok(scene.atSite(federation, bruges));
    await scene.stop();
  });

  test('when it is created in the cluster again before the CRD is asked for', async () => {
    const { scene, app1 } = await synced();
    const uid = scene.atSite(federation, bruges)?.metadata.uid;
    await app1.remove(federation, bruges);
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges)?.metadata.uid, uid);
    await scene.stop();
  });
});

const tokenSpec = {
  method: 'spiffe',
  roles: ['bot'],
  botName: 'ci',
  spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
};

describe('a cluster', () => {
  test('that is away delays no other', async () => {
    const { scene, app1 } = await synced();
    await scene.allow('app2', { kinds: ['SPIFFEFederation'], verbs });
    const app2 = await scene.register('app2', ['SPIFFEFederation']);
    app1.kube.isDown = true;
    app1.kube.endWatches('reset');
    await scene.settle();
    await app2.apply(federation, 'ghent.example', bundleSpec());
    await scene.clock.advance(1000);
    assert.ok(scene.atSite(federation, 'ghent.example'));
    await scene.stop();
  });

  test('without the CRDs or the rights says in its Cluster what to do', async () => {
    const { scene, app1 } = await runningScene();
    await app1.undefine(joinTokenKind, scene.settle);
    assert.match(conditionOf(scene)?.message ?? '', /JoinToken: .*hansa cluster sync app1/);
    app1.serve(joinTokenKind);
    app1.forbid('update hansa.dev/spiffefederations/status');
    await scene.clock.advance(5 * 60_000);
    assert.equal(conditionOf(scene)?.status, 'True');
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined, 'without a claim');
    const { reason, message = '' } = conditionOf(scene) ?? {};
    assert.equal(reason, 'Failed');
    assert.match(message, /SPIFFEFederation: .*403.*hansa cluster sync app1/);
    await scene.stop();
  });

  test('whose CRD has no claim gets nothing, and no endless writes', async () => {
    const { scene, app1 } = await runningScene();
    const { customResource } = await import('../../../test/fakes/memory-kube/custom-resources.ts');
    app1.kube.stopServing(federation.plural);
    app1.kube.serve(customResource(federation));
    await app1.apply(federation, bruges, bundleSpec());
    await scene.clock.advance(60_000);
    app1.requests.length = 0;
    await scene.clock.advance(10 * 60_000);
    const writes = app1.requests.filter((request) => request.startsWith('update')).length;
    assert.ok(writes <= 11, `${writes} writes`);
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.equal(scene.clusterStatus('app1')?.sync?.refused, 1);
    await scene.stop();
  });

  test('that sends malformed objects breaks nothing', async () => {
    const { scene, app1 } = await synced();
    const strange: readonly object[] = [
      { spec: 5, status: 'x' },
      { spec: [], status: { conditions: 5, syncedTo: {} } },
      { spec: {}, status: { conditions: [null, 5, { type: 'Accepted' }] } },
      { spec: bundleSpec(), metadata: { labels: { a: 5, b: 'c' }, generation: 'x' } },
      {},
    ];
    for (const [at, object] of strange.entries()) {
      const name = `strange${at}.example`;
      const { metadata = {} } = object as { readonly metadata?: object };
      app1.kube.put(federation.plural, '', name, {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'SPIFFEFederation',
        ...object,
        metadata: { name, uid: `u${at}`, ...metadata },
      });
    }
    await app1.apply(federation, 'ghent.example', bundleSpec());
    await scene.settle();
    assert.ok(scene.atSite(federation, 'ghent.example'));
    // The fourth is valid but for a label.
    assert.equal(scene.store.count(federation.plural), 3);
    const labels = scene.atSite(federation, 'strange3.example')?.metadata.labels ?? {};
    assert.deepEqual(Object.keys(labels).toSorted(), ['b', 'clusters.hansa.dev/origin']);
    await scene.stop();
  });
});

describe('an object has one site', () => {
  test('that another site has claimed is neither synced nor written', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    const path = `${clusterSidePath(federation)}/${bruges}`;
    // Before the site has looked.
    const found = await app1.user.get<never>(path);
    const status = { syncedTo: 'bruges.example/east' };
    await app1.user.replace(`${path}/status`, { ...(found as object), status });
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.deepEqual(app1.find(federation, bruges)?.status, status);
    assert.equal(scene.clusterStatus('app1')?.sync?.refused, 1);
    await scene.stop();
  });

  test('and one Cluster there, until that Cluster is not marked any more', async () => {
    const { scene, app1 } = await synced();
    await scene.allow('twin', { kinds: ['SPIFFEFederation'], verbs });
    await scene.register('twin', ['SPIFFEFederation'], 'app1');
    await scene.settle();
    app1.requests.length = 0;
    await scene.clock.advance(60 * 60_000);
    assert.ok(!app1.requests.some((request) => request.startsWith('update')));
    assert.equal(app1.find(federation, bruges)?.status?.syncedTo, 'lubeck.example/app1');
    await scene.mark('app1');
    await scene.drop(federation, bruges);
    await scene.clock.advance(10 * 60_000);
    assert.equal(app1.find(federation, bruges)?.status?.syncedTo, 'lubeck.example/twin');
    assert.equal(scene.origin(federation, bruges)?.cluster, 'twin');
    await scene.stop();
  });

  test('also where two sites find it at the same time', async () => {
    const { scene, app1 } = await runningScene();
    // The other site writes its claim between our read and our write.
    const stop = app1.kube.onChange(({ new: object }) => {
      if (object?.metadata.name !== bruges || object['status'] !== undefined) return;
      stop();
      app1.kube.put(federation.plural, '', bruges, {
        ...object,
        status: { syncedTo: 'bruges.example/east' },
      });
    });
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.equal(app1.find(federation, bruges)?.status?.syncedTo, 'bruges.example/east');
    await scene.stop();
  });
});

describe('a status', () => {
  test('that the cluster does not accept is replaced by the verdict alone', async () => {
    const { scene, app1 } = await synced();
    await scene
      .resources(federation)
      .patchStatus(bruges, () => ({ source: 'static', sequence: 7 }), { controller: 'test' });
    await scene.settle();
    assert.equal(app1.find(federation, bruges)?.status?.['sequence'], 7);
    app1.refusesStatus = (status) => status['sequence'] === 8;
    await scene
      .resources(federation)
      .patchStatus(bruges, () => ({ source: 'static', sequence: 8 }), { controller: 'test' });
    await scene.settle();
    assert.equal(app1.find(federation, bruges)?.status?.['sequence'], undefined);
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    await scene.stop();
  });
});
