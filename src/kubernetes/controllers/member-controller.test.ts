import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  copyAnnotation,
  epochAnnotation,
  managedByLabel,
  memberCondition,
  sourceAnnotation,
} from '../names.ts';
import type { Endpoint } from '../objects.ts';
import {
  addressesIn,
  conditionIn,
  copiesIn,
  globalAnnotation,
  memberService,
  namespacedAnnotation,
  ownSlices,
  sourceSlice,
  TestLeague,
} from '../copies/test-league.ts';

/** Cluster a has shop/shop with two pods. */
async function running(seed = 1) {
  const league = new TestLeague(seed);
  league.a.put('services', memberService());
  league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1', '10.1.0.2']));
  const site = await league.leader();
  for (const cluster of league.clusters) cluster.writes.length = 0;
  const { a, b, c, clock } = league;
  return { league, site, a, b, c, clock };
}

function assertLawful({ clusters }: TestLeague): void {
  for (const { violations } of clusters) assert.deepEqual(violations, []);
}

describe('the member controller', () => {
  test('makes an annotated Service known in every cluster, with its endpoints', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1', '10.1.0.2']));
    await league.leader();
    for (const cluster of league.clusters) {
      assert.deepEqual(copiesIn(cluster), ['hansa-system/web']);
      assert.deepEqual(addressesIn(cluster), ['10.1.0.1', '10.1.0.2']);
      const written = cluster.id === 'a' ? 3 : 2;
      assert.equal(cluster.writes.length, written, 'one copy, one slice, and the condition in a');
    }
    const copy = league.b.find('services', 'hansa-system/web');
    assert.equal(copy?.metadata.annotations?.[epochAnnotation], '5');
    const [slice] = ownSlices(league.b);
    assert.equal(slice?.metadata.ownerReferences?.[0]?.uid, copy?.metadata.uid);
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
    assertLawful(league);
  });

  test('writes one slice once for a change of one endpoint, and looks at no other endpoint', async () => {
    const league = new TestLeague();
    let looks = 0;
    const endpoint = (address: string): Endpoint => ({
      get addresses() {
        looks++;
        return [address];
      },
      conditions: { ready: true },
    });
    const slice = (at: number, first = 0) =>
      sourceSlice(
        `shop-${at}`,
        Array.from({ length: 100 }, (_, host) => endpoint(`10.1.${at}.${first + host}`)),
      );
    league.a.put('services', memberService());
    for (let at = 0; at < 100; at++) league.a.put('slices', slice(at));
    await league.leader();
    await league.settle();
    assert.equal(addressesIn(league.c).length, 10_000);
    for (const cluster of league.clusters) cluster.writes.length = 0;
    looks = 0;
    league.a.put('slices', slice(7, 1));
    await league.settle();
    assert.ok(addressesIn(league.c).includes('10.1.7.100'));
    for (const { id, writes } of league.clusters) assert.equal(writes.length, 1, id);
    // Each of three targets compiles 100 endpoints, and reads an address a few times.
    assert.ok(looks > 0 && looks < 3 * 100 * 10, `${looks} looks`);
    assertLawful(league);
  });

  test('leads only to local endpoints while there are ready ones', async () => {
    const { league, a, b, c } = await running();
    b.put('services', memberService());
    b.put('slices', sourceSlice('shop-y', ['10.2.0.1']));
    await league.settle();
    assert.deepEqual(addressesIn(a), ['10.1.0.1', '10.1.0.2']);
    assert.deepEqual(addressesIn(b), ['10.2.0.1']);
    assert.deepEqual(addressesIn(c), ['10.1.0.1', '10.1.0.2', '10.2.0.1']);
    const dead = { addresses: ['10.2.0.1'], conditions: { ready: false } };
    b.put('slices', sourceSlice('shop-y', [dead]));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
    b.put('slices', sourceSlice('shop-y', ['10.2.0.1']));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.2.0.1']);
    assertLawful(league);
  });

  test('follows slices that come, split and go', async () => {
    const { league, a, b } = await running();
    const many = Array.from({ length: 250 }, (_, host) => `10.1.1.${host}`);
    a.put('slices', sourceSlice('shop-z', many));
    await league.settle();
    assert.equal(addressesIn(b).length, 252);
    assert.ok(ownSlices(b).every(({ endpoints }) => (endpoints ?? []).length <= 100));
    a.put('slices', sourceSlice('shop-z', ['10.1.1.1']));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2', '10.1.1.1']);
    a.remove('slices', 'shop/shop-z');
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
    assert.equal(ownSlices(b).length, 1);
    assertLawful(league);
  });

  test('removes copies, slices and the condition when the annotation goes, and not the Service', async () => {
    const { league, a, b } = await running();
    a.edit('services', 'shop/shop', (service) => ({
      ...service,
      metadata: { ...service.metadata, annotations: {} },
    }));
    await league.settle();
    for (const cluster of league.clusters) {
      assert.deepEqual([copiesIn(cluster), ownSlices(cluster)], [[], []]);
    }
    assert.ok(a.find('services', 'shop/shop'));
    assert.equal(conditionIn(a), undefined);
    assert.ok(b.writes.some((write) => write.startsWith('delete services')));
    assertLawful(league);
  });

  test('moves the copies when the annotation names another federated Service', async () => {
    const { league, a, b } = await running();
    a.edit('services', 'shop/shop', (service) => ({
      ...service,
      metadata: { ...service.metadata, annotations: { [namespacedAnnotation]: 'front' } },
    }));
    await league.settle();
    assert.deepEqual(copiesIn(b), ['shop/front']);
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
    assertLawful(league);
  });

  test('repairs copies and slices that users change or delete, and keeps what they add', async () => {
    const { league, b } = await running();
    const [slice] = ownSlices(b);
    const sliceKey = `hansa-system/${slice?.metadata.name}`;
    const copyKey = 'hansa-system/web';
    const before = JSON.stringify([addressesIn(b), copiesIn(b)]);
    const edits: readonly (() => void)[] = [
      () =>
        b.edit('services', copyKey, (copy) => ({
          ...copy,
          spec: { ...copy.spec, type: 'NodePort', ports: [{ name: 'x', port: 81 }] },
        })),
      () =>
        b.edit('services', copyKey, (copy) => ({
          ...copy,
          metadata: { ...copy.metadata, labels: { mine: 'yes' } },
        })),
      () =>
        b.edit('services', copyKey, (copy) => ({
          ...copy,
          spec: { ...copy.spec, sessionAffinity: 'ClientIP', internalTrafficPolicy: 'Local' },
        })),
      () =>
        b.edit('services', copyKey, (copy) => ({
          ...copy,
          spec: { ...copy.spec, clusterIP: 'None' },
        })),
      () => b.edit('slices', sliceKey, (one) => ({ ...one, endpoints: [] })),
      () =>
        b.edit('slices', sliceKey, (one) => {
          const { [sourceAnnotation]: _, ...annotations } = one.metadata.annotations ?? {};
          return { ...one, metadata: { ...one.metadata, annotations } };
        }),
      () =>
        b.edit('slices', sliceKey, (one) => ({
          ...one,
          metadata: { ...one.metadata, labels: {} },
        })),
      () => b.remove('slices', sliceKey),
      () => b.remove('services', copyKey),
    ];
    for (const [at, edit] of edits.entries()) {
      edit();
      await league.settle();
      assert.equal(JSON.stringify([addressesIn(b), copiesIn(b)]), before, `edit ${at}`);
      assert.deepEqual(b.find('services', copyKey)?.spec.ports, [
        { name: 'http', port: 80, protocol: 'TCP' },
      ]);
      const copy = b.find('services', copyKey);
      assert.deepEqual(
        [copy?.spec.sessionAffinity, copy?.spec.internalTrafficPolicy, copy?.spec.clusterIP],
        [undefined, undefined, undefined],
      );
      const [own] = ownSlices(b);
      assert.ok(own?.metadata.labels?.[managedByLabel]);
      assert.equal(own?.metadata.ownerReferences?.[0]?.uid, copy?.metadata.uid);
    }
    b.edit('services', copyKey, (copy) => ({
      ...copy,
      metadata: {
        ...copy.metadata,
        annotations: {
          ...copy.metadata.annotations,
          [copyAnnotation]: 'other',
          'external-dns.alpha.kubernetes.io/hostname': 'web.example',
        },
      },
    }));
    await league.settle();
    const { annotations } = b.find('services', copyKey)?.metadata ?? {};
    assert.equal(annotations?.[copyAnnotation], 'web');
    assert.equal(annotations?.['external-dns.alpha.kubernetes.io/hostname'], 'web.example');
    assertLawful(league);
  });

  test('writes nothing for the echo of its own writes, and nothing at a resync', async () => {
    const { league, clusters } = await running().then((all) => ({
      ...all,
      clusters: all.league.clusters,
    }));
    await league.clock.advance(30 * 60_000);
    for (const { id, writes } of clusters) assert.deepEqual(writes, [], id);
  });

  test('tries again after failures of the target', async () => {
    const { league, a, b } = await running();
    let failures = 0;
    b.fault = (request) => {
      const isHit = request.startsWith('replace') && failures < 5;
      failures += isHit ? 1 : 0;
      return isHit ? [500, 409, 429, 404, 403][failures - 1] : undefined;
    };
    a.put('slices', sourceSlice('shop-x', ['10.1.0.9']));
    await league.clock.advance(60_000);
    assert.equal(failures, 5);
    assert.deepEqual(addressesIn(b), ['10.1.0.9']);
    assertLawful(league);
  });
});

test('a slice that a user changes while it is removed is removed all the same', async () => {
  for (let seed = 0; seed < 20; seed++) {
    const { league, a, b } = await running(seed);
    a.remove('slices', 'shop/shop-x');
    await league.clock.advance(seed / 2);
    for (const { metadata } of ownSlices(b)) {
      b.edit('slices', `hansa-system/${metadata.name}`, (one) => {
        const { [sourceAnnotation]: _, ...annotations } = one.metadata.annotations ?? {};
        return { ...one, metadata: { ...one.metadata, annotations } };
      });
    }
    await league.settle();
    assert.deepEqual(ownSlices(b), [], `seed ${seed}`);
    assertLawful(league);
  }
});

describe('what a user created', () => {
  const mine = memberService(
    {},
    {
      metadata: { name: 'web', namespace: 'hansa-system', labels: { mine: 'yes' } },
    },
  );

  test('is never adopted: there is no copy, and a condition says why', async () => {
    const league = new TestLeague();
    league.a.put('services', memberService());
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    const own = league.a.put('services', mine);
    await league.leader();
    assert.deepEqual(copiesIn(league.a), []);
    assert.deepEqual(addressesIn(league.a), []);
    assert.equal(league.a.find('services', 'hansa-system/web'), own);
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
    assert.equal(conditionIn(league.a)?.reason, 'CopyConflict');
    assert.equal(conditionIn(league.a)?.status, 'True');
    league.a.remove('services', 'hansa-system/web');
    await league.settle();
    assert.deepEqual(copiesIn(league.a), ['hansa-system/web']);
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
    assertLawful(league);
  });

  test('as a member with the name of its federated Service stays, and only other clusters have copies', async () => {
    const league = new TestLeague();
    const metadata = {
      name: 'shop',
      namespace: 'shop',
      annotations: { [namespacedAnnotation]: 'shop' },
    };
    const own = memberService({}, { metadata });
    league.a.put('services', own);
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    await league.leader();
    assert.deepEqual(copiesIn(league.a), []);
    assert.deepEqual(league.a.find('services', 'shop/shop')?.spec, own.spec);
    assert.equal(conditionIn(league.a)?.reason, 'CopyConflict');
    assert.deepEqual(copiesIn(league.b), ['shop/shop']);
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
    assertLawful(league);
  });

  test('in place of a deleted copy stays, and gets none of our slices', async () => {
    const { league, b } = await running();
    b.remove('services', 'hansa-system/web');
    const own = b.put('services', mine);
    await league.settle();
    assert.equal(b.find('services', 'hansa-system/web'), own);
    assert.deepEqual(ownSlices(b), []);
    assertLawful(league);
  });

  test('with the name of a slice of a copy stays', async () => {
    const { league, b } = await running();
    const [slice] = ownSlices(b);
    assert.ok(slice);
    const key = `hansa-system/${slice.metadata.name}`;
    b.remove('slices', key);
    const own = b.put('slices', {
      ...slice,
      metadata: { name: slice.metadata.name, namespace: 'hansa-system' },
      endpoints: [],
    });
    await league.settle();
    assert.equal(b.find('slices', key), own);
    assertLawful(league);
  });

  test('from the manifest of a copy, under another name, stays', async () => {
    const { league, b } = await running();
    const copy = b.find('services', 'hansa-system/web');
    assert.ok(copy);
    const own = b.put('services', {
      ...copy,
      metadata: { ...copy.metadata, name: 'mine', uid: 'another' },
    });
    await league.clock.advance(30 * 60_000);
    assert.equal(b.find('services', 'hansa-system/mine'), own);
    assertLawful(league);
  });

  test('as a selector of a copy stops the writes of its slices until it is gone', async () => {
    const { league, a, b } = await running();
    b.put('services', memberService());
    await league.settle();
    const copyKey = 'hansa-system/web';
    b.edit('services', copyKey, (copy) => ({
      ...copy,
      spec: { ...copy.spec, selector: { app: 'x' } },
    }));
    await league.settle();
    a.put('slices', sourceSlice('shop-x', ['10.1.0.3']));
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
    assert.deepEqual(b.find('services', copyKey)?.spec.selector, { app: 'x' });
    assert.equal(conditionIn(b)?.reason, 'CopyHasSelector');
    b.edit('services', copyKey, (copy) => {
      const { selector: _, ...spec } = copy.spec;
      return { ...copy, spec };
    });
    await league.settle();
    assert.deepEqual(addressesIn(b), ['10.1.0.3']);
    assertLawful(league);
  });
});

describe('a namespaced federated Service', () => {
  const annotated = memberService(
    {},
    {
      metadata: { name: 'shop', namespace: 'shop', annotations: { [namespacedAnnotation]: 'web' } },
    },
  );

  test('is copied where its namespace exists, and later where it appears', async () => {
    const league = new TestLeague();
    league.b.remove('namespaces', 'shop');
    league.a.put('services', annotated);
    league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    await league.leader();
    assert.deepEqual([copiesIn(league.b), copiesIn(league.c)], [[], ['shop/web']]);
    league.b.putNamespace('shop');
    await league.settle();
    assert.deepEqual(copiesIn(league.b), ['shop/web']);
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
    league.b.remove('namespaces', 'shop');
    await league.settle();
    assert.deepEqual(copiesIn(league.b), []);
    league.b.putNamespace('shop');
    await league.settle();
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
    assertLawful(league);
  });

  test('is not written into a namespace that is going away', async () => {
    const league = new TestLeague();
    league.b.edit('namespaces', 'shop', (one) => ({ ...one, status: { phase: 'Terminating' } }));
    league.a.put('services', annotated);
    await league.leader();
    assert.deepEqual(league.b.writes, []);
  });

  test('is refused in the system namespace, with a condition', async () => {
    const league = new TestLeague();
    const metadata = {
      name: 'shop',
      namespace: 'hansa-system',
      annotations: { [namespacedAnnotation]: 'web' },
    };
    league.a.put('services', memberService({}, { metadata }));
    await league.leader();
    assert.deepEqual(copiesIn(league.b), []);
    assert.equal(conditionIn(league.a, 'hansa-system/shop')?.reason, 'SystemNamespace');
  });
});

describe('the condition of a member Service', () => {
  test('says why its annotation names nothing, and goes with the annotation', async () => {
    const { league, a } = await running();
    const annotate = (annotations: Record<string, string>) =>
      a.edit('services', 'shop/shop', (service) => ({
        ...service,
        metadata: { ...service.metadata, annotations },
      }));
    annotate({ [globalAnnotation]: 'Not A Name' });
    await league.settle();
    assert.equal(conditionIn(a)?.reason, 'IllegalName');
    assert.deepEqual(copiesIn(a), []);
    annotate({});
    await league.settle();
    assert.equal(conditionIn(a), undefined);
    annotate({ [globalAnnotation]: 'web' });
    await league.settle();
    assert.equal(conditionIn(a)?.reason, 'Federated');
    assertLawful(league);
  });

  test('keeps the conditions of others, and its time while its status stays', async () => {
    const { league, a } = await running();
    const other = {
      type: 'example.com/Other',
      status: 'True',
      reason: 'X',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    } as const;
    const since = conditionIn(a)?.lastTransitionTime;
    a.edit('services', 'shop/shop', (service) => ({
      ...service,
      status: { ...service.status, conditions: [other, ...(service.status?.conditions ?? [])] },
    }));
    await league.clock.advance(60_000);
    a.put('slices', sourceSlice('shop-x', ['10.9.0.1', '10.1.0.1']));
    await league.settle();
    assert.equal(conditionIn(a)?.reason, 'AddressesLeftOut');
    assert.match(conditionIn(a)?.message ?? '', /10\.9\.0\.1/);
    assert.equal(conditionIn(a)?.lastTransitionTime, since);
    const types = a.find('services', 'shop/shop')?.status?.conditions?.map(({ type }) => type);
    assert.deepEqual(types, ['example.com/Other', memberCondition]);
    assert.deepEqual(addressesIn(league.b), ['10.1.0.1']);
    assertLawful(league);
  });

  test('shows a conflict of ports, in the younger cluster', async () => {
    const { league, b } = await running();
    const younger = { ...memberService().metadata, creationTimestamp: '2026-02-01T00:00:00Z' };
    b.put(
      'services',
      memberService({ ports: [{ name: 'http', port: 81 }] }, { metadata: younger }),
    );
    b.put('slices', sourceSlice('shop-y', ['10.2.0.1']));
    await league.settle();
    assert.equal(conditionIn(b)?.status, 'False');
    assert.equal(conditionIn(b)?.reason, 'PortConflict');
    assert.equal(conditionIn(league.a)?.reason, 'Federated');
    assert.deepEqual(addressesIn(b), ['10.1.0.1', '10.1.0.2']);
  });
});
