import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind } from '../api/kind.ts';
import { createRegistry } from '../api/registry.ts';
import { TrustDomain } from '../api/values/trust-domain.ts';
import { Bundle, type BundleSource } from '../core/identity/bundle/bundle.ts';
import type { Plane, PlaneContext, RunningPlane, SiteBundles } from '../core/plane/plane.ts';
import { PlaneHost } from './plane-host.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const bruges = TrustDomain.parse('bruges.example');
const sourceOf = (...bundles: readonly Bundle[]): BundleSource => ({
  bundleFor: (asked) => bundles.find(({ trustDomain }) => trustDomain.equals(asked)),
});
const own = new Bundle(lubeck, []);
const theirs = new Bundle(bruges, []);

function planeWith(bundles?: SiteBundles): Plane {
  const running: RunningPlane = {
    controllers: [],
    routes: [],
    ...(bundles && { bundles }),
    stop: async () => undefined,
  };
  return { name: 'test', kinds: [], start: async () => running };
}

const start = (host: PlaneHost, ...planes: readonly Plane[]): Promise<void> => {
  const log = { with: () => log };
  return host.start(planes, createRegistry([]), new Map(), { log } as unknown as PlaneContext);
};

suite('the bundles of a site', () => {
  test('are its own where no plane brings others', async () => {
    const host = new PlaneHost(sourceOf(own));
    await start(host, planeWith());
    for (const source of [host.bundles.trusted, host.bundles.held]) {
      assert.equal(source.bundleFor(lubeck), own);
      assert.equal(source.bundleFor(bruges), undefined);
    }
  });

  test('are those of the plane that brings them, from its start on', async () => {
    const host = new PlaneHost(sourceOf(own));
    // Planes are handed these before that plane has started.
    const { trusted, held } = host.bundles;
    assert.equal(held.bundleFor(bruges), undefined);
    await start(host, planeWith({ trusted: sourceOf(own), held: sourceOf(own, theirs) }));
    assert.equal(held.bundleFor(bruges), theirs);
    assert.equal(trusted.bundleFor(bruges), undefined);
  });
});

suite('two planes', () => {
  const part = {} as never;
  for (const name of [
    'bundles',
    'jwtIssuer',
    'connectCluster',
    'webCertificate',
    'peers',
    'callPeer',
    'agents',
  ] as const) {
    test(`cannot both provide ${name}, and both are stopped`, async () => {
      const stopped: string[] = [];
      const plane = (of: string): Plane => ({
        name: of,
        kinds: [],
        start: async () => ({
          controllers: [],
          routes: [],
          [name]: part,
          stop: async () => void stopped.push(of),
        }),
      });
      const host = new PlaneHost(sourceOf(own));
      await assert.rejects(start(host, plane('a'), plane('b')), {
        message: `planes a and b both provide ${name}`,
      });
      await host.stop();
      assert.deepEqual(stopped, ['b', 'a']);
    });
  }
});

suite('admission by a plane', () => {
  const kind = { kind: 'Ship', plural: 'ships' } as Kind;
  const other = { kind: 'Port', plural: 'ports' } as Kind;
  const object = (spec: object) => ({ metadata: { name: 'cog' }, spec }) as never;

  test('is asked for new specs and for deletions of its own kinds', async () => {
    const asked: string[] = [];
    const plane: Plane = {
      name: 'test',
      kinds: [kind],
      start: async () => ({
        controllers: [],
        routes: [],
        admit: () => {
          asked.push('admit');
          return [];
        },
        admitDeletion: (_kind, { metadata: { name } }) => {
          asked.push(`delete ${name}`);
          throw new Error('it sails');
        },
        stop: async () => undefined,
      }),
    };
    const host = new PlaneHost(sourceOf(own));
    const log = { with: () => log };
    const registry = { byKind: () => kind } as never;
    await host.start([plane], registry, new Map(), { log } as unknown as PlaneContext);
    host.admit(kind, object({ masts: 1 }), undefined);
    host.admit(kind, object({ masts: 2 }), object({ masts: 1 }));
    host.admit(kind, object({ masts: 1 }), object({ masts: 1 }));
    host.admit(other, undefined, object({}));
    assert.deepEqual(asked, ['admit', 'admit']);
    assert.throws(() => host.admit(kind, undefined, object({})), /it sails/);
    assert.equal(asked.at(-1), 'delete cog');
  });
});
