import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { settle } from '../../clock/virtual.ts';
import type { SourceSink } from '../../reconcile/source.ts';
import { ModelServer } from '../../../../test/fakes/memory-kube/model-server.ts';
import { cached, reflect, stored } from '../../../../test/fakes/memory-kube/reflected-model.ts';

function serverWith(...names: readonly string[]): ModelServer {
  const server = new ModelServer();
  for (const name of names) server.put(name);
  return server;
}

for (const usesInitialEvents of [true, false]) {
  const way = usesInitialEvents ? 'initial events' : 'pages';
  const start = (server: ModelServer, options: object = {}) =>
    reflect(server, { usesInitialEvents, ...options });

  suite(`a reflector that reads ${way}`, () => {
    test('caches what exists and follows each change, in order', async () => {
      const { server, reflector, heard } = start(serverWith('a', 'b'));
      assert.equal(reflector.isSynced, false);
      await reflector.synced();
      assert.deepEqual(heard, ['+a@2', '+b@3']);
      await settle();
      server.put('a');
      server.remove('b');
      server.put('b');
      server.put('c');
      await settle();
      assert.deepEqual(heard.slice(2), ['~a@4', '-b', '+b@6', '+c@7']);
      assert.deepEqual(cached(reflector), stored(server));
      assert.equal(reflector.byKey('default/a')?.metadata.resourceVersion, '4');
    });

    test('resumes after a lost connection and misses no change', async () => {
      const { server, clock, heard } = start(serverWith('a'));
      await clock.advance(0);
      server.put('b');
      server.reset();
      server.put('a');
      server.remove('a');
      server.put('a');
      await clock.advance(1000);
      // What was on its way when the connection broke comes again.
      assert.deepEqual(heard, ['+a@2', '+b@3', '~a@4', '-a', '+a@6']);
      assert.equal(server.requests.at(-1)?.['resourceVersion'], '2');
    });

    test('reports deletions of a gap after the server forgot them', async () => {
      const { server, clock, reflector, heard } = start(serverWith('a', 'b', 'c'));
      await clock.advance(0);
      server.reset();
      server.remove('a');
      server.put('b');
      server.put('d');
      server.compact();
      await clock.advance(5000);
      assert.deepEqual(heard.slice(3), ['-a', '~b@6', '+d@7']);
      assert.deepEqual(cached(reflector), stored(server));
      assert.equal(reflector.status().relists, 1);
    });

    test('takes no list that is older than what it has seen', async () => {
      const { server, clock, reflector, heard } = start(serverWith('a', 'b'));
      await clock.advance(0);
      server.remove('a');
      await clock.advance(0);
      server.reset();
      server.cluster.lag = 100;
      server.compact();
      server.put('c');
      server.compact();
      server.faults.push('410');
      await clock.advance(10_000);
      assert.deepEqual(heard, ['+a@2', '+b@3', '-a', '+c@5']);
      assert.deepEqual(cached(reflector), stored(server));
    });

    test('follows a cluster whose etcd was restored', async () => {
      const { server, clock, reflector } = start(serverWith('a', 'b'));
      await clock.advance(0);
      const backup = server.version;
      server.remove('a');
      server.put('late');
      await clock.advance(0);
      assert.deepEqual(cached(reflector), ['b@3', 'late@5']);
      server.restore(backup);
      server.put('new');
      await clock.advance(60_000);
      assert.deepEqual(cached(reflector), ['a@2', 'b@3', 'new@4']);
      assert.equal(reflector.status().version, '4');
      server.put('b');
      await clock.advance(0);
      assert.deepEqual(cached(reflector), stored(server));
    });

    test('notices a connection that is silent, and resumes', async () => {
      const { server, clock, reflector, failures } = start(serverWith('a'));
      await clock.advance(0);
      server.blackHole();
      server.put('b');
      await clock.advance(200_000);
      assert.deepEqual(failures, ['silent']);
      assert.deepEqual(cached(reflector), stored(server));
    });

    test('keeps a watch that has nothing but bookmarks', async () => {
      const { server, clock, failures } = start(serverWith('a'));
      await clock.advance(0);
      const before = server.requests.length;
      for (let minute = 0; minute < 60; minute++) {
        server.tick();
        server.bookmark();
        await clock.advance(60_000);
      }
      assert.deepEqual([failures.length, server.requests.length], [0, before]);
      server.reset();
      await clock.advance(1000);
      assert.equal(server.requests.at(-1)?.['resourceVersion'], String(server.version));
    });

    test('reads the collection again after a malformed event, and skips none', async () => {
      const metadata = '{"name":"deep","resourceVersion":"9"}';
      const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
      const nested = `{"type":"ADDED","object":{"metadata":${metadata},"data":${deep}}}\n`;
      for (const text of ['{"type":"ADDED"}\n', '<html>\n', '\u0000\n', '{}\n', '[\n', nested]) {
        const { server, clock, reflector, failures } = start(serverWith('a'));
        await clock.advance(0);
        server.sendText(text);
        server.put('b');
        await clock.advance(1000);
        assert.deepEqual(failures, ['malformed'], text);
        assert.deepEqual(cached(reflector), stored(server));
      }
    });

    test('reads the same events however the body is cut', async () => {
      const server = serverWith('a-ü-😀');
      server.cut = (text) => Array.from(text, (byte) => Buffer.from([byte]));
      const { clock, reflector } = start(server);
      await clock.advance(0);
      server.put('b-ü-😀');
      await clock.advance(0);
      assert.deepEqual(cached(reflector), stored(server));
    });

    test('never gives up, and waits as long as the server asks', async () => {
      const { server, clock, reflector, failures } = start(serverWith('a'));
      server.faults.push('hang', '429', 'reset', 'garbage');
      await clock.advance(6000);
      assert.deepEqual(failures, ['unreachable', 'throttled']);
      assert.equal(reflector.status().failure?.reason, 'throttled');
      assert.equal(reflector.status().state, 'waiting');
      await clock.advance(60_000);
      assert.deepEqual(failures.length, 4);
      assert.deepEqual(cached(reflector), stored(server));
      assert.equal(reflector.status().failure, undefined);
      assert.equal(reflector.status().state, 'watching');
    });

    test('tries again at once when its server answers again, but not when the server asks it to wait', async () => {
      const { server, clock, reflector, failures } = start(serverWith('a'));
      await clock.advance(0);
      server.put('b');
      server.faults.push(...Array.from({ length: 10 }, () => 'reset' as const));
      server.reset();
      while (server.faults.length > 0) await clock.advance(1000);
      assert.equal(failures.at(-1), 'unreachable');
      reflector.retryNow();
      await clock.advance(0);
      assert.equal(reflector.status().state, 'watching');
      assert.deepEqual(cached(reflector), stored(server));
      server.faults.push('429');
      server.reset();
      while (server.faults.length > 0) await clock.advance(100);
      assert.equal(failures.at(-1), 'throttled');
      reflector.retryNow();
      await clock.advance(0);
      assert.equal(reflector.status().state, 'waiting');
    });

    test('ignores an event that comes twice, and lists after one that comes late', async () => {
      const { server, clock, reflector, heard, failures } = start(serverWith('a'));
      await clock.advance(0);
      server.put('b');
      server.repeat();
      server.remove('b');
      server.repeat();
      await clock.advance(0);
      assert.deepEqual([heard, failures], [['+a@2', '+b@3', '-b'], []]);
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: {} };
      const metadata = { name: 'b', namespace: 'default', resourceVersion: '3', labels: {} };
      server.sendText(`${JSON.stringify({ type: 'MODIFIED', object: { ...object, metadata } })}\n`);
      await clock.advance(1000);
      assert.deepEqual([heard.length, failures], [3, ['backwards']]);
      assert.deepEqual(cached(reflector), stored(server));
    });

    test('keeps what it has while the collection is larger than its limit', async () => {
      const { server, clock, reflector, failures } = start(serverWith('a', 'b'), {
        limits: { maxObjects: 3 },
      });
      await clock.advance(0);
      server.put('c');
      server.put('d');
      await clock.advance(0);
      assert.deepEqual(failures, ['over-limit']);
      assert.equal(reflector.status().failure?.reason, 'over-limit');
      server.remove('a');
      await clock.advance(600_000);
      assert.deepEqual(cached(reflector), stored(server));
      const strict = start(serverWith('a', 'b'), { limits: { maxBytes: 50 } });
      await strict.clock.advance(0);
      assert.deepEqual([strict.failures, strict.reflector.isSynced], [['over-limit'], false]);
    });

    test('goes on where a listener throws, and where one stops it in the middle', async () => {
      const { server, clock, reflector, heard, release } = start(serverWith('a'));
      reflector.onChange(() => {
        throw new Error('listener');
      });
      await clock.advance(0);
      server.put('b');
      await clock.advance(0);
      assert.deepEqual(cached(reflector), stored(server));
      reflector.onChange(release);
      server.put('c');
      server.put('d');
      await clock.advance(0);
      assert.deepEqual(heard.slice(2), ['+c@4']);
      assert.deepEqual([cached(reflector), reflector.status().state], [[], 'stopped']);
    });

    test('reports a transform that fails, and recovers', async () => {
      let isBroken = true;
      const { clock, reflector, failures } = start(serverWith('a'), {
        transform: (object: object) => {
          if (isBroken) throw new Error('transform');
          return object;
        },
      });
      await clock.advance(0);
      assert.deepEqual(failures, ['internal']);
      isBroken = false;
      await clock.advance(60_000);
      assert.deepEqual(cached(reflector), ['a@2']);
    });
  });
}

suite('a reflector', () => {
  test('asks for what it needs and nothing else', async () => {
    const { server, clock } = reflect(serverWith('a'), {
      labelSelector: 'app=web',
      fieldSelector: 'metadata.name=a',
    });
    await clock.advance(0);
    server.reset();
    await clock.advance(1000);
    const selectors = { labelSelector: 'app=web', fieldSelector: 'metadata.name=a' };
    const watch = { ...selectors, watch: 'true', allowWatchBookmarks: 'true' };
    const match = { resourceVersionMatch: 'NotOlderThan' };
    const seconds = server.requests.map(({ timeoutSeconds }) => Number(timeoutSeconds));
    const rest = server.requests.map((query) => {
      const { timeoutSeconds, ...others } = query;
      return timeoutSeconds === undefined ? query : others;
    });
    assert.deepEqual(rest, [
      { ...watch, ...match, sendInitialEvents: 'true' },
      { ...selectors, ...match, limit: '1', resourceVersion: '2' },
      { ...watch, resourceVersion: '2' },
    ]);
    const [first = 0, , last = 0] = seconds;
    assert.ok(first >= 300 && first < 600 && last >= 300 && last < 600 && first !== last);
  });

  test('lists where the server refuses or ignores initial events, and asks only once', async () => {
    for (const initialEvents of ['rejects', 'ignores'] as const) {
      const server = serverWith('a');
      server.cluster.initialEvents = initialEvents;
      const { clock, reflector } = reflect(server);
      await clock.advance(60_000);
      server.reset();
      server.put('b');
      server.compact();
      await clock.advance(60_000);
      assert.deepEqual(cached(reflector), stored(server));
      const asked = server.requests.filter((query) => 'sendInitialEvents' in query);
      assert.equal(asked.length, 1, initialEvents);
    }
  });

  test('lists where a bookmark comes before the end of the initial events', async () => {
    const server = serverWith('a');
    server.cluster.initialEvents = 'ignores';
    const { clock, reflector, failures } = reflect(server);
    await clock.advance(0);
    server.tick();
    server.bookmark();
    await clock.advance(1000);
    assert.deepEqual(failures, ['unsupported']);
    assert.deepEqual(cached(reflector), ['a@2']);
  });

  test('reads many pages, and begins again where the server forgot the first', async () => {
    const names = Array.from({ length: 1200 }, (_, at) => `o-${at}`);
    const server = serverWith(...names);
    const { clock, reflector } = reflect(server, { usesInitialEvents: false });
    const real = server.request.bind(server);
    let isFirst = true;
    server.request = (request) => {
      if (request.query?.['continue'] !== undefined && isFirst) {
        isFirst = false;
        server.remove('o-0');
        server.compact();
      }
      return real(request);
    };
    await clock.advance(10_000);
    assert.equal(isFirst, false);
    assert.deepEqual(cached(reflector), stored(server));
    const limits = server.requests.map(({ limit }) => limit).filter((limit) => limit !== undefined);
    assert.deepEqual(limits, ['500', '500', '1000', '1000']);
  });

  test('drops managedFields, or what its transform drops', async () => {
    const plain = reflect(serverWith('a'));
    await plain.clock.advance(0);
    const [object] = [...plain.reflector.objects()];
    assert.ok(object !== undefined && !('managedFields' in object.metadata));
    const trimmed = reflect(serverWith('a'), {
      transform: (whole) => ({ ...whole, metadata: { ...whole.metadata, labels: { x: 'own' } } }),
    });
    await trimmed.clock.advance(0);
    assert.equal(trimmed.reflector.byIndex('label', 'own').length, 1);
  });

  test('finds objects by index while they change', async () => {
    const server = new ModelServer();
    server.put('a', { app: 'web' });
    server.put('b', { app: 'web' });
    const { clock, reflector } = reflect(server);
    await clock.advance(0);
    const names = (value: string): readonly string[] =>
      reflector.byIndex('label', value).map(({ metadata }) => metadata.name);
    assert.deepEqual(names('web'), ['a', 'b']);
    server.put('a', { app: 'db' });
    server.remove('b');
    await clock.advance(0);
    assert.deepEqual([names('web'), names('db')], [[], ['a']]);
  });

  test('waits for its first list with a signal of the caller', async () => {
    const server = serverWith('a');
    server.faults.push('reset');
    const { clock, reflector } = reflect(server);
    const controller = new AbortController();
    const aborted = reflector.synced(controller.signal);
    const reason = new Error('enough');
    controller.abort(reason);
    await assert.rejects(aborted, reason);
    await assert.rejects(reflector.synced(controller.signal), reason);
    const synced = reflector.synced(new AbortController().signal);
    await clock.advance(1000);
    await synced;
  });

  test('says in its status what it does', async () => {
    const server = serverWith('a', 'b');
    const { clock, reflector } = reflect(server);
    await clock.advance(0);
    const startMs = clock.now();
    server.put('c');
    await clock.advance(5000);
    const { bytes, ...status } = reflector.status();
    assert.deepEqual(status, {
      state: 'watching',
      sinceMs: startMs,
      isSynced: true,
      objects: 3,
      version: '4',
      lastEventMs: startMs,
      relists: 0,
      failure: undefined,
    });
    assert.ok(bytes > 0);
    server.faults.push('500', '500');
    server.reset();
    await clock.advance(0);
    assert.equal(reflector.status().failure?.reason, 'unreachable');
    assert.equal(reflector.status().objects, 3);
  });

  test('reports when its server fails and when it is well again', async () => {
    const server = serverWith('a');
    const seen: (string | undefined)[] = [];
    const { clock, reflector } = reflect(server, {
      hooks: { statusChanged: () => void seen.push(reflector.status().failure?.reason) },
    });
    await clock.advance(0);
    server.faults.push('500');
    server.reset();
    await clock.advance(60_000);
    assert.deepEqual(seen.slice(0, 2), [undefined, 'unreachable']);
    assert.ok(seen.includes('server'));
    assert.equal(seen.at(-1), undefined);
  });
});

suite('sources of a reflector', () => {
  const sink = (): SourceSink & { readonly keys: string[] } => {
    const keys: string[] = [];
    return { keys, add: (key) => void keys.push(key), ended: () => assert.fail('it ended') };
  };

  test('share it, and the last one stops it', async () => {
    const { server, clock, reflector, release } = reflect(serverWith('a'));
    const [first, second] = [sink(), sink()];
    const one = reflector.source().start(first);
    await clock.advance(0);
    const two = reflector.source().start(second);
    assert.deepEqual([first.keys, second.keys], [['default/a'], ['default/a']]);
    release();
    release();
    server.remove('a');
    await clock.advance(0);
    one.stop();
    server.put('b');
    await clock.advance(0);
    assert.deepEqual(first.keys, ['default/a', 'default/a']);
    assert.deepEqual(second.keys, ['default/a', 'default/a', 'default/b']);
    two.resync();
    assert.deepEqual(second.keys.slice(3), ['default/b']);
    two.stop();
    two.stop();
    await clock.advance(0);
    assert.equal(server.streams.size, 0);
    assert.equal(clock.nextDueMs(), undefined);
    assert.deepEqual([...reflector.objects()], []);
  });

  test('start again after the last one stopped', async () => {
    const { server, clock, reflector, release } = reflect(serverWith('a'));
    await clock.advance(0);
    release();
    server.remove('a');
    server.put('b');
    const again = sink();
    const running = reflector.source().start(again);
    assert.equal(reflector.isSynced, false);
    await clock.advance(0);
    assert.deepEqual(again.keys, ['default/b']);
    assert.deepEqual(cached(reflector), stored(server));
    running.stop();
  });

  test('add the keys that the old and the new object affect', async () => {
    const server = new ModelServer();
    server.put('a', { app: 'web' });
    const { clock, reflector } = reflect(server);
    const byLabel = sink();
    const source = reflector.source(({ metadata }) => Object.values(metadata.labels));
    const running = source.start(byLabel);
    await clock.advance(0);
    server.put('a', { app: 'db' });
    server.remove('a');
    await clock.advance(0);
    assert.deepEqual(byLabel.keys, ['web', 'web', 'db', 'db']);
    running.stop();
  });

  test('stopped while a request is under way, report nothing more', async () => {
    const { server, reflector, release } = reflect(serverWith('a'));
    const late = sink();
    const running = reflector.source().start(late);
    running.stop();
    release();
    await settle();
    await settle();
    assert.deepEqual([late.keys, server.streams.size], [[], 0]);
    assert.equal(reflector.isSynced, false);
  });
});
