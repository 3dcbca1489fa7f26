import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { sleep } from '../../clock/clock.ts';
import type { KubeResponse } from '../kube-client.ts';
import { maxObjectBytes, maxObjectValues } from '../list-page.ts';
import { type ModelObject, ModelServer } from '../../../../test/fakes/memory-kube/model-server.ts';
import { cached, reflect, stored } from '../../../../test/fakes/memory-kube/reflected-model.ts';

const item = (name: string, more: object = {}): object => ({
  metadata: { name, namespace: 'default', resourceVersion: '1', labels: {} },
  ...more,
});

/** A page of a list that claims to have another one. */
function page(items: readonly object[], next = 'more'): KubeResponse {
  const list = {
    apiVersion: 'v1',
    kind: 'ConfigMapList',
    metadata: { resourceVersion: '5', continue: next },
    items,
  };
  return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(list)) };
}

function lists(
  answer: (at: number) => KubeResponse,
  limits: object = {},
  options: Partial<Parameters<typeof reflect>[1]> = {},
) {
  const server = new ModelServer();
  let requests = 0;
  server.request = async () => answer(requests++);
  const reflected = reflect(server, { usesInitialEvents: false, limits, ...options });
  return { ...reflected, requests: () => requests };
}

suite('a reflector of a hostile API server', () => {
  test('stops to read an endless list of new objects', async () => {
    const { clock, failures, reflector, requests } = lists((at) => page([item(`o-${at}`)]), {
      maxObjects: 100,
    });
    await clock.advance(0);
    assert.deepEqual([failures, requests()], [['over-limit'], 101]);
    assert.equal(reflector.status().objects, 0);
  });

  test('stops to read an endless list that repeats one object', async () => {
    const { clock, failures } = lists(() => page([item('same')]), { maxListBytes: 10_000 });
    await clock.advance(0);
    assert.deepEqual(failures, ['over-limit']);
  });

  test('stops to read an endless list of empty pages', async () => {
    const { clock, failures, requests } = lists(() => page([]), { maxBytes: Infinity });
    await clock.advance(0);
    assert.deepEqual([failures, requests()], [['over-limit'], 20_000]);
  });

  test('counts fields and items, which cost more memory than bytes', async () => {
    const costly = item('costly', { data: Array.from({ length: 500 }, () => ({})) });
    const { clock, failures } = lists(() => page([costly], ''), { maxValues: 1000 });
    await clock.advance(0);
    assert.deepEqual(failures, ['over-limit']);
  });

  test('counts them in initial events and in changes too', async () => {
    const labels = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`k${at}`, 'v']));
    const server = new ModelServer();
    server.put('a', labels);
    const limits = { maxValues: 700 };
    const { clock, failures, reflector } = reflect(server, { limits });
    await clock.advance(0);
    assert.deepEqual([failures, reflector.isSynced], [[], true]);
    // A changed object counts once.
    server.put('a', labels);
    server.put('a', labels);
    await clock.advance(0);
    assert.deepEqual(failures, []);
    server.put('b', labels);
    server.put('c', labels);
    await clock.advance(0);
    assert.deepEqual(failures, ['over-limit']);
    const late = reflect(server, { limits });
    await late.clock.advance(0);
    assert.deepEqual([late.failures, late.reflector.isSynced], [['over-limit'], false]);
  });

  test('counts what it keeps of objects, not what they had before', async () => {
    const large = { data: 'x'.repeat(100_000) };
    const { clock, failures, reflector } = lists(
      (at) => page([item(`o-${at}`, large)], at < 99 ? 'more' : ''),
      { maxBytes: 50_000, maxValues: 5000 },
      { transform: ({ apiVersion, kind, metadata }) => ({ apiVersion, kind, metadata }) },
    );
    await clock.advance(0);
    assert.deepEqual([failures, reflector.status().objects], [[], 100]);
    assert.ok(reflector.status().bytes < 50_000);
  });

  for (const usesInitialEvents of [true, false]) {
    test(`ends a list that takes for ever, and tries again (${usesInitialEvents})`, async () => {
      const server = new ModelServer();
      const open = new AbortController();
      const pause = async (): Promise<void> => {
        // The first request comes before there is a clock.
        await Promise.resolve();
        await sleep(reflected.clock, 20_000);
      };
      server.request = async () => {
        await pause();
        return page([item('same')]);
      };
      const drip = async function* () {
        for (let version = 1; !open.signal.aborted; version++) {
          await pause();
          const { metadata } = item('same') as { readonly metadata: object };
          const object = {
            apiVersion: 'v1',
            kind: 'ConfigMap',
            metadata: { ...metadata, resourceVersion: String(version) },
          };
          yield Buffer.from(`${JSON.stringify({ type: 'ADDED', object })}\n`);
        }
      };
      server.stream = async () => ({
        status: 200,
        headers: {},
        body: drip(),
        close: () => undefined,
      });
      const reflected = reflect(server, { usesInitialEvents });
      const { clock, failures, reflector } = reflected;
      await clock.advance(620_000);
      assert.deepEqual([failures, reflector.isSynced], [['slow'], false]);
      open.abort();
      Reflect.deleteProperty(server, 'request');
      Reflect.deleteProperty(server, 'stream');
      server.put('a');
      await clock.advance(700_000);
      assert.deepEqual(cached(reflector), stored(server));
    });
  }

  test('asks for smaller pages where a page has too many fields and items', async () => {
    const server = new ModelServer();
    for (const name of ['a', 'b']) server.put(name);
    const real = server.request.bind(server);
    const large = item('large', { data: Array.from({ length: 30_000 }, () => ({})) });
    const tooMany = page(Array.from({ length: 40 }, () => large)).body;
    server.request = async (request) => {
      const answer = await real(request);
      return request.query?.['limit'] === '500' ? { ...answer, body: tooMany } : answer;
    };
    const { clock, failures, reflector } = reflect(server, { usesInitialEvents: false });
    await clock.advance(1000);
    assert.deepEqual([failures, server.requests.at(-2)?.['limit']], [['too-large'], '125']);
    assert.deepEqual(cached(reflector), stored(server));
  });

  for (const [what, data] of [
    ['fields and items', Array.from({ length: maxObjectValues }, () => 0)],
    ['bytes', 'x'.repeat(maxObjectBytes)],
  ] as const) {
    test(`parses no object with too many ${what}, however small the page is`, async () => {
      const seen: string[] = [];
      const transform = (object: ModelObject): ModelObject => {
        seen.push(object.metadata.name);
        return object;
      };
      const { clock, failures, requests } = lists(
        () => page([item('small'), item('large', { data })], ''),
        {},
        { transform },
      );
      await clock.advance(0);
      assert.deepEqual([failures, seen, requests()], [['over-limit'], [], 1]);
    });

    test(`parses no event whose object has too many ${what}`, async () => {
      const server = new ModelServer();
      server.put('a');
      const { clock, failures, reflector } = reflect(server);
      await clock.advance(0);
      const object = { apiVersion: 'v1', kind: 'ConfigMap', ...item('b', { data }) };
      server.sendText(`${JSON.stringify({ type: 'ADDED', object })}\n`);
      await clock.advance(0);
      assert.equal(failures.length, 1);
      assert.equal(reflector.byKey('default/b'), undefined);
    });
  }

  test('is not read all the time where lists and events are good and each watch breaks', async () => {
    for (const text of ['<html>\n', '']) {
      const server = new ModelServer();
      server.put('a');
      const { clock, reflector } = reflect(server, { usesInitialEvents: false });
      for (let second = 0; second < 600; second++) {
        server.put('a');
        await clock.advance(500);
        if (text === '') server.endWatches();
        else server.sendText(text);
        await clock.advance(500);
      }
      const { relists } = reflector.status();
      assert.ok(relists <= (text === '' ? 0 : 40), `${relists} lists in ten minutes`);
      assert.ok(server.requests.length < 800, `${server.requests.length} requests`);
      await clock.advance(60_000);
      assert.deepEqual(cached(reflector), stored(server));
    }
  });

  test('is not read all the time where each list takes long and is malformed', async () => {
    const server = new ModelServer();
    let asked = 0;
    server.request = async () => {
      asked++;
      await Promise.resolve();
      await sleep(reflected.clock, 15_000);
      return { status: 200, headers: {}, body: Buffer.from('<html>') };
    };
    const reflected = reflect(server, { usesInitialEvents: false });
    await reflected.clock.advance(600_000);
    assert.ok(asked < 25 && asked > 3, `${asked} lists`);
  });

  test('is read again when it becomes good, whatever it did before', async () => {
    const bad = ['garbage', '500', '410', 'reset', 'hang', '429'] as const;
    for (const fault of bad) {
      const server = new ModelServer();
      server.put('a');
      const { clock, reflector } = reflect(server);
      for (let count = 0; count < 200; count++) server.faults.push(fault);
      await clock.advance(3_600_000);
      server.faults.length = 0;
      server.put('b');
      await clock.advance(120_000);
      assert.deepEqual(cached(reflector), stored(server), fault);
    }
  });

  test('ends a watch whose event does not end, and one that sends no whole event in time', async () => {
    const server = new ModelServer();
    server.put('a');
    const { clock, failures, reflector } = reflect(server, {
      limits: { maxPageBytes: 1000, silenceMs: 60_000 },
    });
    await clock.advance(0);
    for (let at = 0; at < 20; at++) server.sendText('x'.repeat(100));
    await clock.advance(5000);
    assert.deepEqual(failures, ['too-large']);
    for (let at = 0; at < 9; at++) {
      server.sendText(at % 2 === 0 ? ' ' : '\n');
      await clock.advance(10_000);
    }
    assert.ok(failures.length > 1, String(failures));
    server.put('b');
    await clock.advance(60_000);
    assert.deepEqual(cached(reflector), stored(server));
  });
});
