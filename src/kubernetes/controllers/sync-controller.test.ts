import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { HansaError } from '../../core/errors/error.ts';
import {
  bruges,
  bundleSpec,
  runningScene,
  type SyncScene,
  syncScene,
  verbs,
} from '../sync/test-sync-scene.ts';

const federation = spiffeFederationKind;
const as = { controller: 'test' };
const ready = (generation: number) => ({
  type: 'Ready',
  status: 'True' as const,
  reason: 'Loaded',
  message: '',
  observedGeneration: generation,
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

const specAt = (scene: Pick<SyncScene, 'atSite'>, name: string) =>
  (scene.atSite(federation, name)?.spec ?? {}) as Partial<SPIFFEFederation['spec']>;

describe('an object that is applied in a marked cluster', () => {
  test('appears at the site, and gets the status of the site', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec(), { team: 'a' });
    await scene.settle();
    const made = scene.atSite(federation, bruges);
    assert.equal(made?.metadata.labels?.['team'], 'a');
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    const { status, metadata } = app1.find(federation, bruges) ?? {};
    assert.equal(status?.syncedTo, 'lubeck.example/app1');
    assert.equal(scene.origin(federation, bruges)?.source?.uid, metadata?.uid);
    await scene
      .resources(federation)
      .patchStatus(bruges, () => ({ source: 'static', conditions: [ready(1)] }), as);
    await scene.settle();
    assert.equal(app1.find(federation, bruges)?.status?.['source'], 'static');
    assert.equal(app1.condition(federation, bruges, 'Ready')?.status, 'True');
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    assert.ok(!app1.requests.some((request) => /^(create|patch|delete)/.test(request)));
    await scene.stop();
  });

  test('changes and disappears at the site with the one in the cluster', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    await app1.apply(federation, bruges, { ...bundleSpec('{"keys":[1]}'), staleAfterSeconds: 60 });
    await scene.settle();
    assert.equal(specAt(scene, bruges).staleAfterSeconds, 60);
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    assert.equal(specAt(scene, bruges).staleAfterSeconds, 3600);
    await app1.remove(federation, bruges);
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    await scene.stop();
  });

  test('has conditions whose generations fit kubectl wait', async () => {
    const { scene, app1 } = await runningScene();
    const generations = () =>
      ['Accepted', 'Ready'].map(
        (type) => app1.condition(federation, bruges, type)?.observedGeneration,
      );
    await app1.apply(federation, bruges, bundleSpec('{"keys":[0]}'));
    await scene.settle();
    // The site counts from 1 again, because an operator deleted the object there.
    await app1.apply(federation, bruges, bundleSpec('{"keys":[1]}'));
    await scene.settle();
    await scene.drop(federation, bruges);
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges)?.metadata.generation, 1);
    await scene.resources(federation).patchStatus(bruges, () => ({ conditions: [ready(1)] }), as);
    await scene.settle();
    assert.equal(app1.find(federation, bruges)?.metadata.generation, 2);
    assert.deepEqual(generations(), [2, 2]);
    // The site has the new version, and its controllers have not looked at it yet.
    await app1.apply(federation, bruges, bundleSpec('{"keys":[2]}'));
    await scene.settle();
    assert.deepEqual(generations(), [3, 2]);
    await scene.stop();
  });

  test('is repaired when it changes or disappears at the site', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    await scene
      .resources(federation)
      .patchSpec(bruges, () => ({ ...bundleSpec('{"keys":[9]}'), quarantined: true }), as);
    await scene.settle();
    const spec = scene.atSite(federation, bruges)?.spec as { readonly quarantined: boolean };
    assert.deepEqual(spec, { ...bundleSpec(), quarantined: true, staleAfterSeconds: 3600 });
    await scene.drop(federation, bruges);
    await scene.settle();
    assert.ok(scene.atSite(federation, bruges));
    await scene.stop();
  });

  test('costs no write while nothing changes', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    const { revision } = scene.store;
    app1.requests.length = 0;
    for (let minute = 0; minute < 60; minute++) await scene.clock.advance(60_000);
    assert.deepEqual(
      app1.requests.filter((request) => request.startsWith('update')),
      [],
    );
    assert.equal(scene.store.revision, revision);
    await scene.stop();
  });

  test('gets fields that change with every fetch every ten minutes only', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    const uid = scene.atSite(federation, bruges)?.metadata.uid;
    app1.requests.length = 0;
    for (let minute = 0; minute < 60; minute++) {
      const syncedAt = new Date(scene.clock.now()).toISOString();
      scene.store.facts.merge(federation.plural, bruges, { uid, syncedAt });
      await scene.clock.advance(60_000);
    }
    const writes = app1.requests.filter((request) => request.startsWith('update')).length;
    assert.ok(writes >= 2 && writes <= 7, `${writes} writes`);
    assert.ok(app1.find(federation, bruges)?.status?.['syncedAt']);
    await scene.stop();
  });

  test('gets few writes when its status at the site changes often', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    app1.requests.length = 0;
    for (let sequence = 0; sequence < 200; sequence++) {
      await scene.resources(federation).patchStatus(bruges, () => ({ sequence }), as);
      await scene.clock.advance(50);
    }
    await scene.settle();
    const writes = app1.requests.filter((request) => request.startsWith('update')).length;
    assert.ok(writes <= 8, `${writes} writes in ten seconds`);
    assert.equal(app1.find(federation, bruges)?.status?.['sequence'], 199);
    await scene.stop();
  });
});

describe('the mark', () => {
  test('is needed: objects of other clusters have no effect, and the site does not connect to them', async () => {
    const scene = await syncScene();
    await scene.allow('app1', { kinds: ['SPIFFEFederation'], verbs });
    const app1 = await scene.register('app1');
    await app1.apply(federation, bruges, bundleSpec());
    await scene.start();
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.equal(app1.connections.length, 0);
    assert.equal(app1.find(federation, bruges)?.status, undefined);
    assert.equal(scene.clusterStatus('app1')?.conditions, undefined);
    await scene.mark('app1', ['SPIFFEFederation']);
    await scene.settle();
    assert.ok(scene.atSite(federation, bruges));
    await scene.stop();
  });

  test('covers the named kinds only', async () => {
    const scene = await syncScene();
    await scene.allow('app1', { kinds: ['*'], verbs: ['*'] });
    const app1 = await scene.register('app1', ['JoinToken']);
    await app1.apply(federation, bruges, bundleSpec());
    await scene.start();
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.ok(!app1.requests.some((request) => request.includes('spiffefederations')));
    await scene.stop();
  });

  test('that is removed ends the sync, and keeps the objects at the site', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    assert.equal(scene.clusterStatus('app1')?.sync?.accepted, 1);
    await scene.mark('app1');
    await scene.settle();
    assert.ok(app1.connections.every(({ isClosed }) => isClosed));
    await app1.remove(federation, bruges);
    await app1.apply(joinTokenKind, 'ci', tokenSpec);
    await scene.settle();
    assert.ok(scene.atSite(federation, bruges));
    assert.equal(scene.atSite(joinTokenKind, 'ci'), undefined);
    assert.equal(scene.clusterStatus('app1')?.sync, undefined);
    assert.deepEqual(scene.clusterStatus('app1')?.conditions, []);
    await scene.stop();
  });

  test('that comes back finds deletions of the meantime', async () => {
    const { scene, app1 } = await runningScene();
    await app1.apply(federation, bruges, bundleSpec());
    await app1.apply(joinTokenKind, 'ci', tokenSpec);
    await scene.settle();
    await scene.mark('app1');
    await scene.settle();
    await app1.remove(federation, bruges);
    await scene.mark('app1', ['SPIFFEFederation']);
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.ok(scene.atSite(joinTokenKind, 'ci'), 'its kind is not marked any more');
    await scene.stop();
  });
});

const tokenSpec = {
  method: 'spiffe',
  roles: ['bot'],
  botName: 'ci',
  spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
};

describe('the site refuses', () => {
  test('what the role of the cluster does not allow, until it does', async () => {
    const scene = await syncScene();
    await scene.allow('app1', { kinds: ['JoinToken'], verbs });
    const app1 = await scene.register('app1', ['SPIFFEFederation', 'JoinToken']);
    await scene.start();
    await app1.apply(federation, bruges, bundleSpec());
    await app1.apply(joinTokenKind, 'ci', tokenSpec);
    await scene.settle();
    assert.equal(scene.atSite(federation, bruges), undefined);
    assert.equal(app1.verdict(federation, bruges), 'False Forbidden');
    assert.match(
      app1.condition(federation, bruges)?.message ?? '',
      /lubeck\.example refuses.*"cluster:app1" cannot create/,
    );
    assert.equal(app1.verdict(joinTokenKind, 'ci'), 'True Accepted');
    assert.deepEqual(scene.clusterStatus('app1')?.sync, { accepted: 1, refused: 1, kept: 0 });
    await scene.allow('app1', { kinds: ['SPIFFEFederation', 'JoinToken'], verbs });
    await scene.clock.advance(3000);
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    await scene.stop();
  });

  test('roles and bindings that grant more than the cluster has', async () => {
    const scene = await syncScene();
    await scene.allow('app1', { kinds: ['Role', 'RoleBinding', 'SPIFFEFederation'], verbs });
    const app1 = await scene.register('app1', ['Role', 'RoleBinding']);
    await scene.start();
    const subjects = [{ kind: 'User', name: 'cluster:app1' }];
    const rule = (kind: string) => ({ rules: [{ kinds: [kind], verbs: ['create'] }] });
    await app1.apply(roleBindingKind, 'own', { role: 'own', subjects });
    await app1.apply(roleKind, 'more', rule('JoinToken'));
    await app1.apply(roleBindingKind, 'more', { role: 'admin', subjects });
    await app1.apply(roleKind, 'own', rule('SPIFFEFederation'));
    await scene.settle();
    assert.equal(app1.verdict(roleKind, 'more'), 'False Forbidden');
    assert.equal(app1.verdict(roleBindingKind, 'more'), 'False Forbidden');
    assert.equal(scene.atSite(roleKind, 'more'), undefined);
    assert.equal(scene.atSite(roleBindingKind, 'more'), undefined);
    assert.equal(app1.verdict(roleKind, 'own'), 'True Accepted');
    assert.equal(app1.verdict(roleBindingKind, 'own'), 'True Accepted', 'after its role came');
    await scene.stop();
  });

  test('invalid versions, and keeps the last valid one with its status', async () => {
    const { scene, app1 } = await runningScene({
      admit: (_kind, next) => {
        if (!JSON.stringify(next).includes('poison')) return;
        throw new HansaError('HANSA_INVALID', 'the bundle is poisoned');
      },
    });
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    await scene
      .resources(federation)
      .patchStatus(bruges, () => ({ source: 'static', conditions: [ready(1)] }), as);
    await app1.apply(federation, bruges, bundleSpec('poison'));
    await scene.settle();
    assert.equal(app1.verdict(federation, bruges), 'False Invalid');
    assert.match(app1.condition(federation, bruges)?.message ?? '', /poisoned/);
    assert.equal(app1.condition(federation, bruges, 'Ready')?.observedGeneration, 1);
    assert.equal(app1.find(federation, bruges)?.metadata.generation, 2);
    assert.deepEqual(specAt(scene, bruges).bundleSource, bundleSpec().bundleSource);
    await app1.apply(federation, bruges, bundleSpec('{"keys":[7]}'));
    await scene.settle();
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    await scene.stop();
  });

  test('names that the site has already, until they are free', async () => {
    const { scene, app1 } = await runningScene();
    await scene.put(federation, { name: bruges, spec: bundleSpec('{"keys":[5]}') });
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    assert.equal(app1.verdict(federation, bruges), 'False Conflict');
    assert.equal(app1.condition(federation, bruges, 'Ready'), undefined);
    assert.equal(scene.origin(federation, bruges), undefined);
    await app1.remove(federation, bruges);
    await scene.settle();
    assert.ok(scene.atSite(federation, bruges), 'what the cluster did not create stays');
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    await scene.drop(federation, bruges);
    await scene.settle();
    assert.equal(scene.origin(federation, bruges)?.cluster, 'app1');
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    await scene.stop();
  });

  test('a name of another cluster: the first one has it', async () => {
    const { scene, app1 } = await runningScene();
    await scene.allow('app2', { kinds: ['SPIFFEFederation'], verbs });
    const app2 = await scene.register('app2', ['SPIFFEFederation']);
    await app1.apply(federation, bruges, bundleSpec());
    await scene.settle();
    await app2.apply(federation, bruges, bundleSpec('{"keys":[2]}'));
    await scene.settle();
    assert.equal(app2.verdict(federation, bruges), 'False Conflict');
    assert.equal(app1.verdict(federation, bruges), 'True Accepted');
    await app2.remove(federation, bruges);
    await scene.settle();
    assert.equal(scene.origin(federation, bruges)?.cluster, 'app1');
    await app2.apply(federation, bruges, bundleSpec('{"keys":[2]}'));
    await app1.remove(federation, bruges);
    await scene.settle();
    assert.equal(scene.origin(federation, bruges)?.cluster, 'app2');
    assert.equal(app2.verdict(federation, bruges), 'True Accepted');
    await scene.stop();
  });

  test('objects beyond its size, and reports a collection beyond its limits', async () => {
    const { scene, app1 } = await runningScene();
    const labels = Object.fromEntries(
      Array.from({ length: 9000 }, (_, at) => [`l${at}`, 'x'.repeat(60)]),
    );
    await app1.apply(federation, bruges, bundleSpec(), labels);
    await scene.settle();
    assert.equal(app1.verdict(federation, bruges), 'False TooLarge');
    await app1.remove(federation, bruges);
    for (let at = 0; at < 1001; at++) {
      await app1.apply(federation, `d${at}.example`, bundleSpec());
    }
    await scene.settle();
    const condition = scene.clusterStatus('app1')?.conditions?.[0];
    assert.deepEqual([condition?.status, condition?.reason], ['False', 'TooMany']);
    await scene.stop();
  });

  test('for a while, when users of the cluster change objects too often', async () => {
    const { scene, app1 } = await runningScene({ recordsPerSecond: 1 });
    for (let at = 0; at < 320; at++) await app1.apply(federation, `d${at}.example`, bundleSpec());
    await scene.clock.advance(15_000);
    const first = scene.store.count(federation.plural);
    assert.ok(first >= 300 && first < 320, `${first} objects`);
    await scene.clock.advance(60_000);
    assert.equal(scene.store.count(federation.plural), 320);
    await scene.stop();
  });
});
