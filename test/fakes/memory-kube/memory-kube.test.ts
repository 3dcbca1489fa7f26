import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { LocalClock, settle, VirtualClock } from '../../../src/core/clock/virtual.ts';
import type { KubeObject } from '../../../src/core/kube/kube-client.ts';
import { KubeStatusError, unreachableReason } from '../../../src/core/kube/kube-errors.ts';
import { runControllers } from './cluster-controllers.ts';
import { MemoryKube, type MemoryKubeOptions } from './memory-kube.ts';
import { type KubeLink, MemoryKubeClient } from './memory-kube-client.ts';
import type { StoredObject } from './stored-object.ts';

const maps = '/api/v1/namespaces/app/configmaps';
const configMap = (name: string, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...more },
});

function setUp(options: MemoryKubeOptions = {}) {
  const cluster = new MemoryKube(options);
  cluster.put('namespaces', '', 'app', { metadata: {} });
  return { cluster, client: new MemoryKubeClient({ cluster }) };
}

/** A process and its link to a cluster, which can be cut. */
function setUpLink() {
  const clock = new VirtualClock();
  const { cluster } = setUp({ clock });
  const own = new LocalClock(clock);
  const state = { reaches: true, noticesAfterMs: 500 as number | undefined };
  const link: KubeLink = {
    clock: own,
    network: clock,
    delayMs: () => 10,
    reaches: () => state.reaches,
    noticesAfterMs: () => state.noticesAfterMs,
  };
  return { clock, own, cluster, state, client: new MemoryKubeClient({ cluster, link }) };
}

const names = (cluster: MemoryKube): readonly string[] =>
  cluster.objects('configmaps').map(({ metadata }) => metadata.name);

const statusOf = async (work: Promise<unknown>): Promise<readonly [number, string]> => {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof KubeStatusError, String(error));
    return [error.status, error.reason];
  }
  return [200, ''];
};

const reasonOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: unknown) => unreachableReason(error) ?? String(error),
  );

suite('the in-memory API server', () => {
  test('refuses what its access rule refuses, and names who may not do what', async () => {
    const { cluster } = setUp({
      allows: ({ user, verb, resource }) =>
        user === 'reader' && verb === 'list' && resource === 'configmaps',
    });
    const reader = new MemoryKubeClient({ cluster, user: 'reader' });
    assert.deepEqual(await reader.list(maps), []);
    assert.deepEqual(await statusOf(reader.create(maps, configMap('a'))), [403, 'Forbidden']);
    const other = new MemoryKubeClient({ cluster, user: 'other' });
    await assert.rejects(other.list(maps), /User "other" cannot list resource "configmaps"/);
  });

  test('asks its admission rule with the object before and after', async () => {
    const seen: unknown[] = [];
    const { client } = setUp({
      admit: ({ operation, user, object, old }) => {
        seen.push([operation, user, object?.metadata['labels'], old?.metadata.labels]);
        return operation === 'DELETE' ? 'not this one' : undefined;
      },
    });
    await client.create(maps, configMap('a', { labels: { n: '1' } }));
    await client.patch(`${maps}/a`, { metadata: { labels: { n: '2' } } });
    assert.deepEqual(await statusOf(client.delete(`${maps}/a`)), [422, 'Invalid']);
    assert.deepEqual(seen, [
      ['CREATE', 'admin', { n: '1' }, undefined],
      ['UPDATE', 'admin', { n: '2' }, { n: '1' }],
      ['DELETE', 'admin', undefined, { n: '2' }],
    ]);
  });

  test('never shares an object with its callers', async () => {
    const { client } = setUp();
    const sent = configMap('a', { labels: { n: '1' } });
    const made = await client.create<KubeObject & { metadata: { labels: { n: string } } }>(
      maps,
      sent,
    );
    (sent.metadata as unknown as { labels: { n: string } }).labels.n = 'changed';
    made.metadata.labels.n = 'changed';
    const found = await client.get<StoredObject>(`${maps}/a`);
    assert.deepEqual(found.metadata.labels, { n: '1' });
  });

  test('goes back to a backup, with its revisions, and ends watches', async () => {
    const { cluster, client } = setUp();
    await client.create(maps, configMap('a'));
    const backup = cluster.backup();
    await client.create(maps, configMap('b'));
    await client.delete(`${maps}/a`);
    const stream = await client.stream({ method: 'GET', path: maps, query: { watch: 'true' } });
    cluster.restore(backup);
    assert.deepEqual(names(cluster), ['a']);
    assert.equal(cluster.revision, backup.revision);
    assert.equal(cluster.watches.size, 0);
    assert.equal(await reasonOf(stream.body[Symbol.asyncIterator]().next()), 'reset');
  });

  test('goes on with higher revisions where the backup is restored with a bump', async () => {
    const { cluster, client } = setUp();
    const backup = cluster.backup();
    await client.create(maps, configMap('b'));
    const before = cluster.revision;
    cluster.restore(backup, true);
    assert.deepEqual(names(cluster), []);
    assert.ok(cluster.revision > before);
    const query = { resourceVersion: String(before), resourceVersionMatch: 'Exact' };
    assert.deepEqual(await statusOf(client.list(maps, query)), [410, 'Expired']);
  });

  test('shows an old state in lists that need not be consistent', async () => {
    const { cluster, client } = setUp();
    await client.create(maps, configMap('a'));
    await client.create(maps, configMap('b'));
    cluster.lag = 1;
    assert.equal((await client.list(maps, { resourceVersion: '0' })).length, 1);
    assert.equal((await client.list(maps)).length, 2);
  });

  test('dies before or after it stores a write', async () => {
    const { cluster, client } = setUp();
    cluster.diesAtWrite = 'before';
    assert.equal(await reasonOf(client.create(maps, configMap('a'))), 'reset');
    assert.equal(await reasonOf(client.list(maps)), 'refused');
    cluster.isDown = false;
    cluster.diesAtWrite = 'after';
    assert.equal(await reasonOf(client.create(maps, configMap('b'))), 'reset');
    assert.deepEqual(names(cluster), ['b']);
  });

  test('stops to serve a kind with its CRD, and serves it again', async () => {
    const { cluster, client } = setUp();
    const path = '/apis/clusters.hansa.dev/v1alpha1/clusterclaims';
    const claim = {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'ClusterClaim',
      metadata: { name: 'id.k8s.io' },
      spec: { name: 'id.k8s.io', value: 'north' },
    };
    await client.create(path, claim);
    const resource = cluster.stopServing('clusterclaims');
    assert.deepEqual(await statusOf(client.list(path)), [404, '']);
    cluster.serve(resource);
    assert.deepEqual(await client.list(path), []);
  });
});

suite('the controllers of a cluster', () => {
  test('delete objects whose owners are all gone', async () => {
    const { cluster, client } = setUp();
    const { metadata } = await client.create<StoredObject>(maps, configMap('owner'));
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: metadata.uid };
    await client.create(maps, configMap('owned', { ownerReferences: [owner] }));
    await client.create(maps, configMap('free'));
    runControllers(cluster);
    assert.deepEqual(names(cluster), ['free', 'owned', 'owner']);
    await client.delete(`${maps}/owner`);
    runControllers(cluster);
    assert.deepEqual(names(cluster), ['free']);
  });

  test('end a namespace when all in it is gone', async () => {
    const { cluster, client } = setUp();
    await client.create(maps, configMap('held', { finalizers: ['example.com/hold'] }));
    await client.delete('/api/v1/namespaces/app');
    runControllers(cluster);
    assert.equal(cluster.objects('namespaces').length, 1);
    await client.patch(`${maps}/held`, { metadata: { finalizers: null } });
    runControllers(cluster);
    assert.equal(cluster.objects('namespaces').length, 0);
  });
});

suite('a link to the in-memory API server', () => {
  test('takes time in both directions', async () => {
    const { clock, cluster, client } = setUpLink();
    const done = client.create(maps, configMap('a'));
    await clock.advance(9);
    assert.deepEqual(names(cluster), []);
    await clock.advance(1);
    assert.deepEqual(names(cluster), ['a']);
    await clock.advance(10);
    await done;
  });

  test('that is cut loses requests, and answers to requests that were served', async () => {
    const { clock, cluster, client, state } = setUpLink();
    const [first, second] = ['a', 'b'].map((name) =>
      reasonOf(client.create(maps, configMap(name))),
    );
    await clock.advance(10);
    state.reaches = false;
    const third = reasonOf(client.create(maps, configMap('c')));
    await clock.advance(10_000);
    assert.deepEqual(await Promise.all([first, second, third]), ['timeout', 'timeout', 'timeout']);
    assert.deepEqual(names(cluster), ['a', 'b']);
  });

  test('brings what a process sent before it died, and nothing back', async () => {
    const { clock, own, cluster, client } = setUpLink();
    let isAnswered = false;
    void client.create(maps, configMap('a')).then(() => {
      isAnswered = true;
      return undefined;
    });
    await settle();
    own.kill();
    await clock.advance(60_000);
    assert.deepEqual([names(cluster), isAnswered], [['a'], false]);
  });

  test('delivers events late and in order, and breaks or is silent after a cut', async () => {
    for (const noticesAfterMs of [500, undefined]) {
      const { clock, cluster, client, state } = setUpLink();
      state.noticesAfterMs = noticesAfterMs;
      const opening = client.stream({ method: 'GET', path: maps, query: { watch: 'true' } });
      await clock.advance(20);
      const { body } = await opening;
      const heard: string[] = [];
      const ended = (async () => {
        for await (const chunk of body)
          heard.push(JSON.parse(chunk.toString()).object.metadata.name);
      })();
      for (const name of ['a', 'b']) cluster.put('configmaps', 'app', name, { metadata: {} });
      await clock.advance(10);
      state.reaches = false;
      cluster.put('configmaps', 'app', 'c', { metadata: {} });
      await clock.advance(20);
      state.reaches = true;
      cluster.put('configmaps', 'app', 'd', { metadata: {} });
      const reason = reasonOf(ended);
      await clock.advance(10_000);
      assert.deepEqual(heard, ['a', 'b']);
      const outcome = await Promise.race([reason, settle().then(() => 'silent')]);
      assert.equal(outcome, noticesAfterMs === undefined ? 'silent' : 'reset');
    }
  });

  test('gives up where its signal is aborted, and leaves no watch behind', async () => {
    const { clock, cluster, client } = setUpLink();
    const stop = new AbortController();
    const reason = new Error('enough');
    const opening = client.stream({
      method: 'GET',
      path: maps,
      query: { watch: 'true' },
      signal: stop.signal,
    });
    const refused = assert.rejects(opening, reason);
    await clock.advance(15);
    assert.equal(cluster.watches.size, 1);
    stop.abort(reason);
    await refused;
    assert.equal(cluster.watches.size, 0);
  });

  test('ends watches when their time is over, and sends a bookmark each minute', async () => {
    const { clock, cluster, client } = setUpLink();
    const query = {
      watch: 'true',
      resourceVersion: String(cluster.revision),
      allowWatchBookmarks: 'true',
      timeoutSeconds: '150',
    };
    const opening = client.stream({ method: 'GET', path: maps, query });
    await clock.advance(20);
    const { body } = await opening;
    const heard: string[] = [];
    const ended = (async () => {
      for await (const chunk of body) heard.push(JSON.parse(chunk.toString()).type);
    })();
    cluster.tick();
    await clock.advance(151_000);
    await ended;
    assert.deepEqual(heard, ['BOOKMARK', 'BOOKMARK']);
  });
});
