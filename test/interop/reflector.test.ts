// The reflector against a real kube-apiserver behind a proxy with faults: it misses no change.

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { silentLog } from '../../src/core/log/test-log.ts';
import { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { WorkTime } from '../../src/core/limits/turns.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import type { KubeEndpoint, KubeObject } from '../../src/core/kube/kube-client.ts';
import { kubePath } from '../../src/core/kube/kube-path.ts';
import {
  defaultLimits,
  openWatch,
  readList,
  readVersion,
} from '../../src/core/kube/reflector/collection-requests.ts';
import { failureOf } from '../../src/core/kube/reflector/reflector-failure.ts';
import { Reflector } from '../../src/core/kube/reflector/reflector.ts';
import type { ReflectorOptions } from '../../src/core/kube/reflector/reflector-options.ts';
import { FaultProxy } from './fault-proxy.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('kube-apiserver', 'etcd');

interface ConfigMap extends KubeObject {
  readonly metadata: KubeObject['metadata'] & {
    readonly resourceVersion: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

describe('a reflector of kube-apiserver', { skip }, () => {
  let kube: KubeApiserver;
  /** Past the proxy. */
  let direct: HttpKubeClient;
  let proxy: FaultProxy;
  let proxied: HttpKubeClient;
  const releases: (() => void)[] = [];

  before(async () => {
    kube = await startKubeApiserver();
    direct = clientAt({ server: new URL(kube.url), caBundle: kube.ca });
    proxy = new FaultProxy(kube);
    proxied = clientAt(await proxy.start());
  });
  afterEach(() => {
    for (const release of releases.splice(0)) release();
  });
  after(async () => {
    direct.close();
    proxied.close();
    await proxy.stop();
    await kube.stop();
  });

  const clientAt = (endpoint: KubeEndpoint): HttpKubeClient =>
    new HttpKubeClient({
      endpoint,
      credentials: { current: () => ({ type: 'token', token: kube.token }) },
      clock: systemClock,
    });
  const newNamespace = async (name: string): Promise<string> => {
    await direct.create('/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name },
    });
    return kubePath`/api/v1/namespaces/${name}/configmaps`;
  };
  const put = (path: string, name: string, value: string): Promise<ConfigMap> =>
    direct.apply<ConfigMap>(`${path}/${name}`, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name },
      data: { value },
    } as KubeObject);
  /** What it hears of each object: versions, and `gone`. */
  const reflect = (path: string, options: Partial<ReflectorOptions<ConfigMap, never>> = {}) => {
    const failures: string[] = [];
    const heard = new Map<string, string[]>();
    const reflector = new Reflector<ConfigMap>({
      client: proxied,
      cluster: 'oracle',
      path,
      clock: systemClock,
      random: systemRandom,
      log: silentLog,
      hooks: { failed: (reason) => void failures.push(reason) },
      ...options,
    });
    reflector.onChange(({ key, new: now }) => {
      const name = key.split('/')[1] ?? '';
      const list = heard.get(name) ?? [];
      heard.set(name, list);
      list.push(now?.metadata.resourceVersion ?? 'gone');
    });
    releases.push(reflector.acquire());
    return { reflector, failures, heard };
  };
  /** Resolves when this object is cached. All changes before it are then cached too. */
  const seen = (reflector: Reflector<ConfigMap>, key: string): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (reflector.byKey(key) === undefined) return;
        stop();
        resolve();
      };
      const stop = reflector.onChange(look);
      look();
    });
  const assertSame = async (reflector: Reflector<ConfigMap>, path: string): Promise<void> => {
    const stamp = ({ metadata }: ConfigMap): string =>
      `${metadata.name}@${metadata.resourceVersion}`;
    const expected = await direct.list<ConfigMap>(path);
    assert.deepEqual(
      [...reflector.objects()].map(stamp).toSorted(),
      expected.map(stamp).toSorted(),
    );
  };
  /** By changes that the reflector heard, so that each fault meets a watch that works. */
  const afterEvery = (
    changes: number,
    reflector: Reflector<ConfigMap>,
    disturb: () => void,
  ): void => {
    let heard = 0;
    reflector.onChange(() => {
      if (++heard % changes === 0) disturb();
    });
  };
  /** Eight writers change objects of their own, one write after the other. Returns what each wrote. */
  const write = async (path: string, count: number): Promise<Map<string, string[]>> => {
    const written = new Map<string, string[]>();
    const writer = async (name: string, random: SeededRandom): Promise<void> => {
      const own: string[] = [];
      written.set(name, own);
      let exists = false;
      for (let each = 0; each < count / 8; each++) {
        if (exists && random.chance(0.25)) {
          await direct.delete(`${path}/${name}`);
          own.push('gone');
          exists = false;
        } else {
          own.push((await put(path, name, String(each))).metadata.resourceVersion);
          exists = true;
        }
      }
    };
    const names = Array.from({ length: 8 }, (_, at) => `object-${at}`);
    await Promise.all(names.map((name) => writer(name, new SeededRandom(name))));
    return written;
  };

  for (const usesInitialEvents of [true, false]) {
    it(`caches a collection by ${usesInitialEvents ? 'initial events' : 'pages'}`, async () => {
      const path = await newNamespace(`read-${usesInitialEvents}`);
      for (let at = 0; at < 12; at++) await put(path, `map-${at}`, 'ä😀');
      const { reflector, failures } = reflect(path, { usesInitialEvents });
      await reflector.synced();
      await assertSame(reflector, path);
      const query = proxy.queries.find((each) => each.get('watch') !== 'true');
      assert.equal(query === undefined, usesInitialEvents);
      assert.deepEqual(failures, []);
      const [first] = [...reflector.objects()];
      assert.ok(first !== undefined && !('managedFields' in first.metadata));
      assert.deepEqual(
        [first.apiVersion, first.kind, first.data],
        ['v1', 'ConfigMap', { value: 'ä😀' }],
      );
    });

    it(`hears each of 2,400 changes once over broken connections (${usesInitialEvents})`, async () => {
      const namespace = `soak-${usesInitialEvents}`;
      const path = await newNamespace(namespace);
      const limits = { silenceMs: 1000 };
      const { reflector, heard, failures } = reflect(path, { usesInitialEvents, limits });
      await reflector.synced();
      const random = new SeededRandom(namespace);
      const disturb = (): void => {
        const fault = random.pick(['reset', 'end', 'blackHole', 'truncate', 'throttle'] as const);
        if (fault === 'throttle') proxy.answer(fault);
        proxy[fault === 'throttle' ? 'end' : fault]();
      };
      afterEvery(150, reflector, disturb);
      const written = await write(path, 2400);
      await put(path, 'last', 'x');
      await seen(reflector, `${namespace}/last`);
      heard.delete('last');
      assert.deepEqual(Object.fromEntries(heard), Object.fromEntries(written));
      await assertSame(reflector, path);
      assert.equal(reflector.status().relists, 0);
      assert.ok(failures.length > 0);
    });

    it(`misses no deletion where the server forgets its history or lists are stale (${usesInitialEvents})`, async () => {
      const namespace = `expire-${usesInitialEvents}`;
      const path = await newNamespace(namespace);
      await put(path, 'object-0', 'before');
      const { reflector, heard, failures } = reflect(path, { usesInitialEvents });
      await reflector.synced();
      let count = 0;
      afterEvery(20, reflector, () => {
        // After the 410 of the watch, the list is from the past, or gets a 410 too. Initial events are never stale.
        proxy.answer(count++ % 2 === 0 && !usesInitialEvents ? 'stale' : 'expire');
        proxy.expire();
      });
      const written = await write(path, 1200);
      await put(path, 'last', 'x');
      await seen(reflector, `${namespace}/last`);
      await assertSame(reflector, path);
      for (const [name, own] of written) {
        const last = heard.get(name) ?? [];
        assert.equal(last.at(-1), own.at(-1), name);
        const versions = last.filter((each) => each !== 'gone').map(Number);
        assert.deepEqual(
          versions,
          versions.toSorted((a, b) => a - b),
        );
        assert.equal(new Set(versions).size, versions.length);
      }
      assert.ok(reflector.status().relists > 0);
      assert.ok(failures.includes('expired'), String(failures));
      assert.equal(failures.includes('behind'), !usesInitialEvents, String(failures));
    });
  }

  it('recognizes a server that has not seen its version, as after a restore of etcd', async () => {
    const path = await newNamespace('future');
    const version = '4000000000';
    const collection = {
      client: direct,
      cluster: 'oracle',
      path,
      selectors: {},
      limits: defaultLimits,
      time: new WorkTime(systemClock),
    };
    const { signal } = new AbortController();
    const reason = (work: Promise<unknown>): Promise<string> =>
      work.then(
        () => 'none',
        (error: unknown) => failureOf(error).reason,
      );
    const list = { type: 'list', notOlderThan: version, pageSize: 500 } as const;
    const same = { transform: (object: ConfigMap): ConfigMap => object, check: () => undefined };
    assert.equal(await reason(readVersion(collection, version, signal)), 'behind');
    assert.equal(await reason(readList<ConfigMap>(collection, list, same, signal)), 'behind');
    // A watch is accepted, and then silent: hence the check before it.
    const stream = await openWatch(collection, { type: 'watch', version }, 0, signal);
    assert.equal(stream.status, 200);
    stream.close();
  });

  it('follows only what its selectors select', async () => {
    const path = await newNamespace('select');
    const { reflector, heard } = reflect(path, { labelSelector: 'app=web' });
    await reflector.synced();
    await put(path, 'other', '1');
    await put(path, 'mine', '1');
    await direct.patch(`${path}/mine`, { metadata: { labels: { app: 'web' } } });
    await seen(reflector, 'select/mine');
    await direct.patch(`${path}/mine`, { metadata: { labels: { app: 'db' } } });
    await direct.patch(`${path}/other`, { metadata: { labels: { app: 'web' } } });
    await seen(reflector, 'select/other');
    assert.equal(heard.get('mine')?.at(-1), 'gone');
    assert.equal(reflector.byKey('select/mine'), undefined);
  });

  it('says that a collection does not exist, and follows it once it does', async () => {
    const { reflector } = reflect('/apis/hansa.test/v1/widgets', { usesInitialEvents: false });
    const failed = new Promise<string>((resolve) => {
      const look = (): void => {
        const { failure } = reflector.status();
        if (failure === undefined) setImmediate(look);
        else resolve(failure.reason);
      };
      look();
    });
    assert.equal(await failed, 'not-found');
    assert.equal(reflector.isSynced, false);
    await kube.install([widgets]);
    await reflector.synced();
    await direct.create('/apis/hansa.test/v1/widgets', {
      apiVersion: 'hansa.test/v1',
      kind: 'Widget',
      metadata: { name: 'one' },
    });
    await seen(reflector, 'one');
  });
});

const widgets = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.hansa.test' },
  spec: {
    group: 'hansa.test',
    scope: 'Cluster',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
    versions: [
      { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } },
    ],
  },
};
