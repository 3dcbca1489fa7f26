// Endpoints that serve a bundle of another trust domain, or one without authorities. SPIRE stores both.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { bundleMessage } from './bundle-message.ts';
import { bundleOf, relationship, SidecarScene } from './test-sidecar-scene.ts';

const b = relationship('b.example', { bundle: bundleOf('b.example') });
const { bundle: _, endpointSpiffeID: _id, ...bare } = b;
const web = { ...bare, profile: 'https_web' } as const;
const elsewhere = create(BundleSchema, {
  ...bundleMessage(bundleOf('elsewhere.example'), 'elsewhere.example'),
  trustDomain: 'b.example',
});
const empty = create(BundleSchema, { trustDomain: 'b.example' });

suite('a bundle that is not of its trust domain', () => {
  let scene: SidecarScene;
  beforeEach(() => {
    scene = new SidecarScene();
  });
  afterEach(() => scene.stop());

  for (const [served, words] of [
    [elsewhere, /the endpoint serves the bundle of spiffe:\/\/elsewhere\.example/],
    [empty, /the endpoint serves a bundle without X\.509 authorities/],
  ] as const) {
    test(`is reported, and withheld from workloads: ${words.source}`, async () => {
      await scene.ask([b]);
      scene.spire.entriesHeld.set('web', ['b.example']);
      scene.spire.served.set('b.example', served);
      await scene.clock.advance(310_000);
      assert.match(scene.status('b.example')?.lastError ?? '', words);
      assert.equal(scene.status('b.example')?.withheld, true);
      assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    });
  }

  test('is replaced by the bootstrap bundle, and released after a right one', async () => {
    await scene.ask([b]);
    const right = scene.spire.bundlesHeld.get('b.example');
    assert.ok(right);
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.spire.served.set('b.example', elsewhere);
    await scene.clock.advance(310_000);
    assert.deepEqual(
      scene.spire.bundlesHeld.get('b.example')?.x509Authorities,
      right.x509Authorities,
    );
    scene.spire.served.set('b.example', right);
    await scene.clock.advance(310_000);
    assert.equal(scene.status('b.example')?.lastError, undefined);
    assert.equal(scene.status('b.example')?.withheld, undefined);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
  });

  test('is found where SPIRE stored it by itself, and cannot authenticate the endpoint any more', async () => {
    await scene.ask([b]);
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.spire.bundlesHeld.set('b.example', elsewhere);
    scene.spire.dead.set('b.example', 'x509: certificate signed by unknown authority');
    await scene.clock.advance(310_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    assert.notDeepEqual(
      scene.spire.bundlesHeld.get('b.example')?.x509Authorities,
      elsewhere.x509Authorities,
    );
    scene.spire.dead.clear();
    await scene.clock.advance(310_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
  });

  test('is asked for at a slower and slower pace, and changes little', async () => {
    await scene.ask([b]);
    scene.spire.served.set('b.example', elsewhere);
    await scene.clock.advance(3_600_000);
    const { changes } = scene.spire;
    const asked = scene.spire.refreshed.length;
    await scene.clock.advance(3_600_000);
    assert.ok(scene.spire.refreshed.length - asked <= 13, String(scene.spire.refreshed.length));
    assert.ok(scene.spire.changes - changes <= 13, String(scene.spire.changes - changes));
  });

  test('stays withheld over a restart, and without a bootstrap bundle', async () => {
    scene.spire.bundlesHeld.set('b.example', elsewhere);
    scene.spire.served.set('b.example', elsewhere);
    await scene.ask([web]);
    scene.spire.entriesHeld.set('web', ['b.example']);
    await scene.clock.advance(61_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    scene.spire.isDown = true;
    await scene.restart();
    scene.spire.isDown = false;
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.clock.advance(120_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
  });

  test('is not kept when its relationship is removed', async () => {
    await scene.ask([b]);
    scene.spire.bundlesHeld.set('b.example', elsewhere);
    await scene.ask([]);
    assert.equal(scene.maps.saved.get('b.example')?.bundle, undefined);
    await scene.ask([b]);
    assert.equal(scene.status('b.example')?.lastError, undefined);
  });

  test('is refused as a bootstrap bundle', async () => {
    await scene.ask([{ ...b, bundle: bundleOf('elsewhere.example') }]);
    assert.match(
      scene.status('b.example')?.lastError ?? '',
      /bootstrap bundle cannot be used: it has an authority of spiffe:\/\/elsewhere\.example/,
    );
    assert.equal(scene.spire.held.has('b.example'), false);
  });
});
