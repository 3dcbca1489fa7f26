// A sidecar with an endpoint that accepts connections and never answers. SPIRE waits for it without a time limit.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { bundleOf, relationship, SidecarScene } from './test-sidecar-scene.ts';

const b = relationship('b.example', { bundle: bundleOf('b.example') });
const c = relationship('c.example', { bundle: bundleOf('c.example') });
const d = relationship('d.example', { bundle: bundleOf('d.example') });
const minuteMs = 60_000;

suite('a sidecar with a silent endpoint', () => {
  let scene: SidecarScene;
  beforeEach(async () => {
    scene = new SidecarScene();
    await scene.ask([b, c]);
    scene.spire.entriesHeld.set('web', ['b.example', 'c.example']);
    scene.spire.silent.set('b.example', []);
    await scene.clock.advance(10 * minuteMs);
  });
  afterEach(async () => {
    scene.spire.answer('b.example');
    await scene.stop();
  });

  const refreshesOf = (name: string): number =>
    scene.spire.refreshed.filter((each) => each === name).length;

  test('says so, and refreshes others meanwhile', async () => {
    assert.match(scene.status('b.example')?.lastError ?? '', /answer/);
    const before = refreshesOf('c.example');
    await scene.clock.advance(20 * minuteMs);
    assert.ok(refreshesOf('c.example') > before);
    assert.equal(scene.status('c.example')?.lastError, undefined);
  });

  test('takes a new relationship meanwhile', async () => {
    await scene.ask([b, c, d]);
    assert.ok(scene.spire.held.has('d.example'));
    assert.notEqual(scene.status('d.example')?.lastRefresh, undefined);
  });

  test('asks SPIRE no second time while the first fetch hangs', async () => {
    assert.equal(scene.spire.hanging('b.example'), 1);
    await scene.clock.advance(30 * minuteMs);
    assert.equal(scene.spire.hanging('b.example'), 1);
    scene.spire.answer('b.example');
    await scene.clock.advance(minuteMs);
    assert.equal(scene.status('b.example')?.lastError, undefined);
  });

  test('asks SPIRE at once for a changed endpoint', async () => {
    const before = refreshesOf('b.example');
    await scene.ask([{ ...b, bundleEndpointURL: 'https://new.b.example/' }, c]);
    assert.equal(refreshesOf('b.example'), before + 1);
  });

  test('ends trust in it at once, and deletes the relationship when the fetch has ended', async () => {
    await scene.ask([c]);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['c.example']);
    assert.ok(!scene.spire.bundlesHeld.has('b.example'));
    // Deleting it now would block SPIRE.
    assert.ok(scene.spire.held.has('b.example'));
    assert.match(scene.status('b.example')?.lastError ?? '', /no workload trusts it any more/);
    const before = refreshesOf('c.example');
    await scene.ask([c, d]);
    await scene.clock.advance(10 * minuteMs);
    assert.ok(refreshesOf('c.example') > before);
    assert.notEqual(scene.status('d.example')?.lastRefresh, undefined);
    scene.spire.answer('b.example');
    await scene.clock.advance(2 * minuteMs);
    assert.ok(!scene.spire.held.has('b.example'));
    assert.ok(!scene.spire.bundlesHeld.has('b.example'));
    assert.equal(scene.status('b.example')?.kept, true);
    assert.equal(scene.status('b.example')?.lastError, undefined);
  });

  test('restores trust when the relationship comes back before that', async () => {
    await scene.ask([c]);
    const { bundle: _, ...bare } = b;
    await scene.ask([bare, c]);
    assert.ok(scene.spire.bundlesHeld.has('b.example'));
    assert.deepEqual(scene.spire.entriesHeld.get('web')?.toSorted(), ['b.example', 'c.example']);
  });
});

suite('a sidecar with a silent endpoint of https_web', () => {
  test('lets SPIRE fetch no bundle of a removed relationship', async () => {
    const scene = new SidecarScene();
    const { endpointSpiffeID: _, ...rest } = b;
    await scene.ask([{ ...rest, profile: 'https_web' }]);
    scene.spire.silent.set('b.example', []);
    await scene.clock.advance(10 * minuteMs);
    await scene.ask([]);
    assert.equal(scene.spire.held.get('b.example')?.profile, 'https_spiffe');
    assert.equal(scene.spire.bundlesHeld.size, 0);
    scene.spire.answer('b.example');
    await scene.clock.advance(2 * minuteMs);
    assert.equal(scene.spire.held.size, 0);
    await scene.stop();
  });
});
