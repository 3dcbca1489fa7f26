import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { bundleOf, otherForm, relationship, SidecarScene } from './test-sidecar-scene.ts';

const b = relationship('b.example', { bundle: bundleOf('b.example') });
const c = relationship('c.example', { bundle: bundleOf('c.example') });
const otherBootstrap = otherForm(bundleOf('b.example'));

suite('the sidecar of a SPIRE server', () => {
  let scene: SidecarScene;
  beforeEach(() => {
    scene = new SidecarScene();
  });
  afterEach(() => scene.stop());

  test('creates a relationship with its bootstrap bundle, refreshes it and says so', async () => {
    await scene.ask([b]);
    assert.equal(scene.spire.held.get('b.example')?.bundleEndpointURL, 'https://b.example/');
    const held = scene.spire.bundlesHeld.get('b.example');
    assert.equal(held?.x509Authorities.length, 2);
    assert.equal(held?.jwtAuthorities.length, 2);
    const status = scene.status('b.example');
    assert.equal(status?.hasBundle, true);
    assert.equal(status?.lastError, undefined);
    assert.notEqual(status?.lastRefresh, undefined);
  });

  test('updates an endpoint in place, and keeps the bundle', async () => {
    await scene.ask([b]);
    const before = scene.spire.bundlesHeld.get('b.example');
    await scene.ask([{ ...b, bundleEndpointURL: 'https://new.b.example/' }]);
    assert.equal(scene.spire.held.get('b.example')?.bundleEndpointURL, 'https://new.b.example/');
    assert.deepEqual(
      scene.spire.bundlesHeld.get('b.example')?.x509Authorities,
      before?.x509Authorities,
    );
  });

  test('repairs a relationship that somebody deleted at the server', async () => {
    await scene.ask([b]);
    scene.spire.held.delete('b.example');
    await scene.clock.advance(61_000);
    assert.ok(scene.spire.held.has('b.example'));
  });

  test('removes a relationship, its bundle and its trust, and nothing else', async () => {
    await scene.ask([b, c]);
    scene.spire.entriesHeld.set('web', ['b.example', 'c.example']);
    await scene.ask([c]);
    assert.deepEqual([...scene.spire.held.keys()], ['c.example']);
    assert.deepEqual([...scene.spire.bundlesHeld.keys()], ['c.example']);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['c.example']);
    const status = scene.status('b.example');
    assert.equal(status?.kept, true);
    assert.equal(status?.hasBundle, false);
  });

  for (const [what, entry] of [
    ['a URL that it cannot read', { ...c, bundleEndpointURL: 'https://c.example:65536/' }],
    ['a SPIFFE ID that it cannot read', { ...c, endpointSpiffeID: 'spiffe://c.example/..' }],
    ['no trust domain', { ...c, trustDomain: 'C example' }],
    ['nothing', null],
  ] as const) {
    test(`removes a trust domain beside an entry with ${what}, and reports that entry`, async () => {
      await scene.ask([b, c]);
      scene.spire.entriesHeld.set('web', ['b.example', 'c.example']);
      await scene.ask([entry as never], { adoptExisting: true });
      assert.ok(!scene.spire.held.has('b.example'));
      assert.ok(!scene.spire.bundlesHeld.has('b.example'));
      assert.ok(!scene.spire.entriesHeld.get('web')?.includes('b.example'));
      assert.equal(scene.maps.last?.refusals?.length, 1);
    });
  }

  test('changes and removes nothing of a trust domain whose entry it refuses', async () => {
    await scene.ask([b]);
    scene.spire.entriesHeld.set('web', ['b.example']);
    await scene.ask([{ ...b, bundleEndpointURL: 'https://[::1' }]);
    assert.equal(scene.spire.held.get('b.example')?.bundleEndpointURL, 'https://b.example/');
    assert.ok(scene.spire.bundlesHeld.has('b.example'));
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
    assert.equal(scene.status('b.example')?.kept, false);
    await scene.ask([]);
    assert.ok(!scene.spire.held.has('b.example'));
  });

  test('ends trust also while it cannot store what a return needs, and stores that later', async () => {
    await scene.ask([b]);
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.maps.isReadOnly = true;
    await scene.ask([]);
    assert.equal(scene.spire.held.size, 0);
    assert.equal(scene.spire.bundlesHeld.size, 0);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    scene.maps.isReadOnly = false;
    await scene.clock.advance(120_000);
    assert.equal(scene.maps.saved.get('b.example')?.owned, false);
  });

  test('removes a trust domain although SPIRE refuses to change entries of other namespaces', async () => {
    await scene.ask([b, c]);
    scene.spire.entriesHeld.set('db', ['c.example']);
    scene.spire.stubborn.add('db');
    await scene.ask([c], { namespaces: ['web'] });
    assert.ok(!scene.spire.held.has('b.example'));
    assert.match(scene.maps.last?.problem ?? '', /stubborn/);
  });

  test('removes a trust domain although SPIRE refuses to take it from an entry', async () => {
    await scene.ask([b, c]);
    scene.spire.entriesHeld.set('db', ['b.example']);
    scene.spire.stubborn.add('db');
    await scene.ask([c]);
    assert.ok(!scene.spire.held.has('b.example'));
    assert.ok(!scene.spire.bundlesHeld.has('b.example'));
    assert.deepEqual(scene.spire.entriesHeld.get('db'), []);
    assert.deepEqual(scene.maps.saved.get('b.example')?.entries, ['db'], 'for a return');
  });

  test('names the request that it carried out', async () => {
    await scene.ask([b]);
    const first = scene.maps.last?.request;
    await scene.ask([b, c]);
    const second = scene.maps.last?.request;
    assert.ok(first !== undefined && second !== undefined && first !== second);
    scene.spire.isDown = true;
    await scene.ask([b]);
    assert.equal(scene.maps.last?.request, undefined);
  });

  test('restores bundle and entries when the relationship comes back without a bootstrap', async () => {
    await scene.ask([b]);
    const { bundle: _, ...bare } = b;
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.spire.entriesHeld.set('other', []);
    await scene.clock.advance(600_000);
    const before = scene.spire.bundlesHeld.get('b.example');
    await scene.ask([]);
    assert.equal(scene.spire.bundlesHeld.size, 0);
    await scene.restart();
    await scene.ask([bare]);
    const after = scene.spire.bundlesHeld.get('b.example');
    assert.deepEqual(after?.x509Authorities, before?.x509Authorities);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
    assert.deepEqual(scene.spire.entriesHeld.get('other'), []);
    assert.equal(scene.status('b.example')?.kept, false);
  });

  test('does not overwrite a refreshed bundle by the bootstrap bundle of before', async () => {
    await scene.ask([b]);
    scene.spire.rotate('b.example');
    const { sequenceNumber } = scene.spire.bundlesHeld.get('b.example') ?? {};
    await scene.restart();
    assert.equal(scene.spire.bundlesHeld.get('b.example')?.sequenceNumber, sequenceNumber);
  });

  test('takes a changed bootstrap bundle', async () => {
    await scene.ask([b]);
    scene.spire.rotate('b.example');
    const before = scene.spire.bundlesHeld.get('b.example')?.sequenceNumber ?? 0n;
    await scene.ask([{ ...b, bundle: otherBootstrap }]);
    assert.ok((scene.spire.bundlesHeld.get('b.example')?.sequenceNumber ?? 0n) < before);
  });

  test('leaves relationships of others alone, and reports them', async () => {
    scene.spire.held.set('b.example', relationship('b.example'));
    scene.spire.held.set('x.example', relationship('x.example'));
    await scene.ask([{ ...b, bundleEndpointURL: 'https://other.example/' }]);
    assert.equal(scene.spire.changes, 0);
    assert.equal(scene.status('b.example')?.foreign, true);
    await scene.ask([]);
    assert.equal(scene.spire.held.size, 2);
    assert.equal(scene.spire.changes, 0);
  });

  test('adopts a relationship of others where it may, and keeps the bundle of the server', async () => {
    await scene.ask([b]);
    const handMade = scene.spire.bundlesHeld.get('b.example');
    scene.maps.saved.clear();
    await scene.ask([{ ...b, bundle: otherBootstrap }], { adoptExisting: true });
    assert.deepEqual(
      scene.spire.bundlesHeld.get('b.example')?.x509Authorities,
      handMade?.x509Authorities,
    );
    assert.equal(scene.status('b.example')?.foreign, undefined);
    await scene.ask([], { adoptExisting: true });
    assert.equal(scene.spire.held.size, 0);
  });

  test('uses the bootstrap bundle where the endpoint does not match the bundle of the server', async () => {
    await scene.ask([b]);
    scene.maps.saved.clear();
    scene.spire.dead.set('b.example', 'x509: certificate signed by unknown authority');
    await scene.ask([{ ...b, bundle: otherBootstrap }], { adoptExisting: true });
    assert.equal(scene.maps.saved.get('b.example')?.bootstrap, undefined);
    await scene.clock.advance(600_000);
    assert.notEqual(scene.maps.saved.get('b.example')?.bootstrap, undefined);
  });

  test('refreshes others while an endpoint is dead, and says what is wrong', async () => {
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.ask([b, c]);
    assert.equal(scene.status('b.example')?.lastError, 'connection refused');
    assert.equal(scene.status('b.example')?.lastRefresh, undefined);
    assert.notEqual(scene.status('c.example')?.lastRefresh, undefined);
    scene.spire.dead.clear();
    await scene.clock.advance(600_000);
    assert.equal(scene.status('b.example')?.lastError, undefined);
  });

  test('withholds a stale bundle where it should, and gives it back', async () => {
    await scene.ask([b], { withholdStaleBundles: true });
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.clock.advance(3_000_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
    await scene.clock.advance(1_200_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    assert.equal(scene.status('b.example')?.withheld, true);
    // The bundle stays at SPIRE, which needs it to refresh.
    assert.ok(scene.spire.bundlesHeld.has('b.example'));
    scene.spire.entriesHeld.set('late', ['b.example']);
    await scene.clock.advance(61_000);
    assert.deepEqual(scene.spire.entriesHeld.get('late'), []);
    await scene.restart();
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    scene.spire.dead.clear();
    await scene.clock.advance(600_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
    assert.deepEqual(scene.spire.entriesHeld.get('late'), ['b.example']);
    assert.equal(scene.status('b.example')?.withheld, undefined);
  });

  test('counts refreshes, also over a restart, and reports failures soon', async () => {
    await scene.ask([b, c]);
    const countOf = (name: string) => scene.status(name)?.refreshes?.count ?? 0;
    assert.equal(countOf('b.example'), 1);
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.clock.advance(1_800_000);
    const failed = scene.status('b.example')?.refreshes?.errors['connect'] ?? 0;
    assert.ok(failed > 3, String(failed));
    assert.deepEqual(scene.status('c.example')?.refreshes?.errors, {});
    const { writes } = scene.maps;
    // With the same failure again, the counts alone change: at most one report a minute.
    await scene.clock.advance(600_000);
    assert.ok((scene.status('b.example')?.refreshes?.errors['connect'] ?? 0) > failed);
    assert.ok(scene.maps.writes - writes <= 10, String(scene.maps.writes - writes));
    const before = countOf('c.example');
    await scene.restart();
    assert.equal(countOf('c.example'), before);
    await scene.clock.advance(1_000_000);
    assert.ok(countOf('c.example') > before);
    await scene.ask([c]);
    await scene.ask([b, c]);
    assert.equal(countOf('b.example'), 1);
  });

  test('gives a withheld bundle back with the first refresh after a restart', async () => {
    await scene.ask([b], { withholdStaleBundles: true });
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.clock.advance(4_200_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), []);
    scene.spire.dead.clear();
    await scene.restart();
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
  });

  test('leaves a stale bundle in use without that setting', async () => {
    await scene.ask([b]);
    scene.spire.entriesHeld.set('web', ['b.example']);
    scene.spire.dead.set('b.example', 'connection refused');
    await scene.clock.advance(7_200_000);
    assert.deepEqual(scene.spire.entriesHeld.get('web'), ['b.example']);
  });

  test('goes on with a removal after a server that did not answer', async () => {
    await scene.ask([b]);
    scene.spire.isDown = true;
    await scene.ask([]);
    assert.match(scene.maps.last?.problem ?? '', /no server/);
    scene.spire.isDown = false;
    await scene.clock.advance(60_000);
    assert.equal(scene.spire.held.size, 0);
    assert.equal(scene.maps.last?.problem, undefined);
  });

  test('changes nothing for a request that cannot be read', async () => {
    await scene.ask([b]);
    scene.maps.wanted = { problem: 'relationships.json is not JSON' };
    await scene.restart();
    assert.ok(scene.spire.held.has('b.example'));
    assert.match(scene.maps.last?.problem ?? '', /not JSON/);
    assert.equal(scene.status('b.example')?.hasBundle, true);
  });

  test('reports a bootstrap bundle that is not one, and creates the others', async () => {
    await scene.ask([{ ...b, bundle: 'not JSON' }, c]);
    assert.match(scene.status('b.example')?.lastError ?? '', /bootstrap bundle cannot be used/);
    assert.equal(scene.spire.held.has('b.example'), false);
    assert.ok(scene.spire.held.has('c.example'));
  });

  test('reports the version of SPIRE, and another one at once', async () => {
    await scene.ask([b]);
    assert.equal(scene.maps.last?.spireVersion, undefined);
    scene.version = '1.12.4';
    await scene.clock.advance(61_000);
    assert.equal(scene.maps.last?.spireVersion, '1.12.4');
    scene.version = '1.13.3';
    await scene.clock.advance(61_000);
    assert.equal(scene.maps.last?.spireVersion, '1.13.3');
    scene.version = undefined;
    await scene.clock.advance(61_000);
    assert.equal(scene.maps.last?.spireVersion, undefined);
  });

  test('writes next to nothing in steady state', async () => {
    await scene.ask(
      Array.from({ length: 50 }, (_, at) =>
        relationship(`t${at}.example`, {
          bundle: bundleOf(`t${at}.example`),
          profile: 'https_web',
        }),
      ),
    );
    await scene.clock.advance(900_000);
    const { writes } = scene.maps;
    const { changes } = scene.spire;
    await scene.clock.advance(3_600_000);
    assert.equal(scene.spire.changes, changes);
    // Only the times of refreshes, four times an hour.
    assert.ok(scene.maps.writes - writes <= 4, String(scene.maps.writes - writes));
  });
});
