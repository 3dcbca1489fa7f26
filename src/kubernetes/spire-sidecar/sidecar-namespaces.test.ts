// A sidecar whose request limits which namespaces may federate.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { bundleOf, relationship, SidecarScene } from './test-sidecar-scene.ts';

const b = relationship('b.example', { bundle: bundleOf('b.example') });
const c = relationship('c.example', { bundle: bundleOf('c.example') });

suite('a sidecar with limited namespaces', () => {
  let scene: SidecarScene;
  beforeEach(async () => {
    scene = new SidecarScene();
    await scene.ask([b, c]);
    addEntry('web', 'k8s:ns:web');
    addEntry('dev', 'k8s:ns:dev');
    addEntry('anywhere', 'k8s:sa:web');
  });
  afterEach(() => scene.stop());

  const addEntry = (id: string, selector: string): void => {
    scene.spire.selectorsHeld.set(id, [selector]);
    scene.spire.entriesHeld.set(id, ['b.example', 'c.example']);
  };
  const federating = (): readonly string[] =>
    [...scene.spire.entriesHeld].flatMap(([id, names]) => (names.length > 0 ? [id] : []));

  test('takes trust domains from entries of other namespaces, and from those of none', async () => {
    await scene.ask([b, c], { namespaces: ['web'] });
    assert.deepEqual(federating(), ['web']);
    assert.equal(scene.maps.last?.excludedEntries, 2);
    // Relationships and bundles stay.
    assert.deepEqual([...scene.spire.held.keys()], ['b.example', 'c.example']);
  });

  test('takes them also from an entry that comes later, within ten seconds', async () => {
    await scene.ask([b, c], { namespaces: ['web'] });
    addEntry('late', 'k8s:ns:dev');
    await scene.clock.advance(10_000);
    assert.deepEqual(federating(), ['web']);
    assert.equal(scene.maps.last?.excludedEntries, 3);
  });

  test('lets nobody federate where no namespace is selected', async () => {
    await scene.ask([b, c], { namespaces: [] });
    assert.deepEqual(federating(), []);
  });

  test('gives them back when the namespace is selected, also after a restart', async () => {
    await scene.ask([b, c], { namespaces: ['web'] });
    await scene.restart();
    await scene.ask([b, c], { namespaces: ['dev', 'web'] });
    assert.deepEqual(scene.spire.entriesHeld.get('dev')?.toSorted(), ['b.example', 'c.example']);
    assert.deepEqual(scene.spire.entriesHeld.get('anywhere'), []);
    await scene.ask([b, c]);
    assert.deepEqual(federating(), ['web', 'dev', 'anywhere']);
    assert.equal(scene.maps.last?.excludedEntries, undefined);
  });

  test('takes trust domains that others federate with, too', async () => {
    const { bundlesHeld, entriesHeld } = scene.spire;
    const held = bundlesHeld.get('b.example');
    assert.ok(held !== undefined);
    bundlesHeld.set('x.example', { ...held, trustDomain: 'x.example' });
    entriesHeld.set('dev', ['x.example']);
    await scene.ask([b, c], { namespaces: ['web'] });
    assert.deepEqual(entriesHeld.get('dev'), []);
  });

  test('gives an entry back nothing of a trust domain that was removed, until it returns', async () => {
    await scene.ask([b, c], { namespaces: ['web'] });
    await scene.ask([c], { namespaces: ['web'] });
    await scene.ask([c]);
    assert.deepEqual(scene.spire.entriesHeld.get('dev'), ['c.example']);
    const { bundle: _, ...bare } = b;
    await scene.ask([bare, c]);
    assert.deepEqual(scene.spire.entriesHeld.get('dev')?.toSorted(), ['b.example', 'c.example']);
  });

  test('restores only entries that may federate when a relationship comes back', async () => {
    await scene.ask([c]);
    await scene.ask([b, c], { namespaces: ['web'] });
    assert.deepEqual(scene.spire.entriesHeld.get('web')?.toSorted(), ['b.example', 'c.example']);
    assert.deepEqual(scene.spire.entriesHeld.get('dev'), []);
    await scene.ask([b, c]);
    assert.deepEqual(scene.spire.entriesHeld.get('dev')?.toSorted(), ['b.example', 'c.example']);
  });

  test('gives back no stale bundle that is withheld', async () => {
    const withholding = { withholdStaleBundles: true };
    await scene.ask([b, c], { ...withholding, namespaces: ['web'] });
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.clock.advance(4_200_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['c.example']);
    await scene.ask([b, c], withholding);
    assert.deepEqual(scene.spire.entriesHeld.get('dev'), ['c.example']);
    scene.spire.dead.clear();
    await scene.clock.advance(600_000);
    for (const id of ['web', 'dev']) {
      assert.deepEqual(scene.spire.entriesHeld.get(id)?.toSorted(), ['b.example', 'c.example']);
    }
  });

  test('changes nothing more in a steady state', async () => {
    await scene.ask([b, c], { namespaces: ['web'] });
    await scene.clock.advance(60_000);
    const { changes } = scene.spire;
    const { writes } = scene.maps;
    await scene.clock.advance(600_000);
    assert.equal(scene.spire.changes, changes);
    assert.ok(scene.maps.writes - writes <= 1, String(scene.maps.writes - writes));
  });
});
