// Watches of a real daemon over HTTP/1.1 and HTTP/2: no event is lost, duplicated or out of order.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  adminClient,
  ApiClient,
  createToken,
  Http2Client,
  named,
  resources,
  role,
  told,
  type WatchEvent,
  type WatchReader,
} from './api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from './daemon.ts';

const roles = `${resources}/roles`;
const dataDir = join(temporaryFolder(), 'lubeck');
let site: Daemon;
let token = '';
let admin: ApiClient;
let client: ApiClient;

before(async () => {
  site = await startDaemon(dataDir);
  admin = adminClient(dataDir);
  token = await createToken(admin, 'watcher', 'admin');
  client = remote();
});
after(async () => {
  client.close();
  await site.signal('SIGTERM');
});

function remote(): ApiClient {
  return new ApiClient({
    origin: site.endpoints.api,
    caFile: join(dataDir, 'ca.pem'),
    token,
  });
}

function http2(): Http2Client {
  return new Http2Client(client.target);
}

async function create(name: string, labels: Record<string, string> = {}): Promise<void> {
  const answer = await admin.request('POST', roles, { body: role(name, { labels }) });
  assert.equal(answer.status, 201, answer.text);
}

async function label(name: string, labels: Record<string, string | null>): Promise<void> {
  const answer = await admin.request('PATCH', `${roles}/${name}`, {
    headers: { 'content-type': 'application/merge-patch+json' },
    body: { metadata: { labels } },
  });
  assert.equal(answer.status, 200, answer.text);
}

async function remove(name: string): Promise<void> {
  const answer = await admin.request('DELETE', `${roles}/${name}`);
  assert.equal(answer.status, 200, answer.text);
}

async function versionNow(): Promise<string> {
  return (await admin.get(`${roles}?limit=1`)).body.metadata.resourceVersion ?? '';
}

const bothProtocols: readonly [string, (path: string) => Promise<WatchReader>][] = [
  ['HTTP/1.1', (path) => client.watch(path)],
  ['HTTP/2', (path) => http2().watch(path)],
];

for (const [protocol, open] of bothProtocols) {
  suite(`a watch over ${protocol}`, () => {
    test('begins with what is there and goes on with what happens', async () => {
      const watch = await open(`${roles}?watch=true`);
      const initial = await watch.until(named('viewer'));
      assert.ok(initial.every(({ type }) => type === 'ADDED'));
      assert.ok(initial.some(named('admin')));
      await create('seen');
      await label('seen', { a: 'b' });
      await remove('seen');
      const events = (await watch.until(({ type }) => type === 'DELETED')).map(told);
      assert.deepEqual(events, ['ADDED seen', 'MODIFIED seen', 'DELETED seen']);
      watch.close();
    });

    test('resumes after a resourceVersion, with nothing from before', async () => {
      await create('before');
      const from = await versionNow();
      await label('before', { step: '1' });
      await remove('before');
      await create('after');
      const watch = await open(`${roles}?watch=true&resourceVersion=${from}`);
      const events = (await watch.until(named('after'))).map(told);
      assert.deepEqual(events, ['MODIFIED before', 'DELETED before', 'ADDED after']);
      watch.close();
      await remove('after');
    });

    test('ends by itself after timeoutSeconds, properly and with a last bookmark', async () => {
      const watch = await open(
        `${roles}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=${await versionNow()}`,
      );
      const events = await watch.rest();
      assert.deepEqual(
        events.map(({ type }) => type),
        ['BOOKMARK'],
      );
      assert.equal(await watch.ended, true);
    });

    test('sends initial events and says where they end', async () => {
      const watch = await open(
        `${roles}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=`,
      );
      const events = await watch.until(({ type }) => type === 'BOOKMARK');
      const last = events.at(-1) as WatchEvent;
      assert.equal(last.object.metadata.annotations?.['k8s.io/initial-events-end'], 'true');
      const { items = [] } = (await admin.get(roles)).body;
      assert.deepEqual(
        events.slice(0, -1).map(told),
        items.map((item) => `ADDED ${item.metadata.name}`),
      );
      watch.close();
    });

    test('tells of objects that begin and cease to match its selector', async () => {
      const from = await versionNow();
      const watch = await open(
        `${roles}?watch=true&resourceVersion=${from}&labelSelector=team%3Dops`,
      );
      await create('mover');
      await label('mover', { team: 'ops' });
      await label('mover', { more: '1' });
      await label('mover', { team: 'dev' });
      await label('mover', { team: 'ops' });
      await remove('mover');
      await create('end', { team: 'ops' });
      const events = await watch.until(named('end'));
      assert.deepEqual(events.map(told), [
        'ADDED mover',
        'MODIFIED mover',
        'DELETED mover',
        'ADDED mover',
        'DELETED mover',
        'ADDED end',
      ]);
      assert.equal(
        events[2]?.object.metadata.labels?.['team'],
        'ops',
        'in its last state that matched',
      );
      watch.close();
      await remove('end');
    });

    test('is told 410 where its history is gone, and 400 where its version is none', async () => {
      const watch = await open(`${roles}?watch=true&resourceVersion=999999999`);
      const events = await watch.rest();
      assert.deepEqual(
        events.map(({ type, object }) => [type, object.code, object.reason]),
        [['ERROR', 410, 'Expired']],
      );
      await assert.rejects(open(`${roles}?watch=true&resourceVersion=x`), /refused with 400/);
    });

    test('resumes across a restart of the daemon without loss or repetition', async () => {
      const from = await versionNow();
      const watch = await open(`${roles}?watch=true&resourceVersion=${from}`);
      await create('r1');
      const seen = [...(await watch.until(named('r1')))];
      await create('r2');
      assert.equal(await site.signal('SIGTERM'), 0);
      // What was written before the end was still delivered: the watch ended properly.
      seen.push(...(await watch.rest()));
      assert.equal(await watch.ended, true);
      site = await startDaemon(dataDir);
      client.close();
      client = remote();
      await create('r3');
      const last = seen.at(-1)?.object.metadata.resourceVersion ?? '';
      const again = await open(`${roles}?watch=true&resourceVersion=${last}`);
      seen.push(...(await again.until(named('r3'))));
      assert.deepEqual(seen.map(told), ['ADDED r1', 'ADDED r2', 'ADDED r3']);
      again.close();
      for (const name of ['r1', 'r2', 'r3']) await remove(name);
    });
  });
}

suite('watches', () => {
  test('as tables carry their columns once', async () => {
    const watch = await client.watch(`${roles}?watch=true`, {
      accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json',
    });
    await create('row');
    const events = await watch.until((event) => told(event) === 'ADDED row');
    assert.ok(events.every(({ object }) => object.kind === 'Table'));
    assert.ok(Array.isArray(events[0]?.object.columnDefinitions));
    assert.ok(events.slice(1).every(({ object }) => !Array.isArray(object.columnDefinitions)));
    watch.close();
    await remove('row');
  });

  test('share one HTTP/2 connection by the hundred, each with every event', async () => {
    const from = await versionNow();
    const shared = http2();
    const all = await Promise.all(
      Array.from({ length: 200 }, () =>
        shared.watch(`${roles}?watch=true&resourceVersion=${from}`),
      ),
    );
    for (let count = 0; count < 20; count += 1) await create(`many-${count}`);
    const expected = Array.from({ length: 20 }, (_, count) => `ADDED many-${count}`);
    for (const watch of all)
      assert.deepEqual((await watch.until(named('many-19'))).map(told), expected);
    shared.close();
    for (let count = 0; count < 20; count += 1) await remove(`many-${count}`);
  });

  test('that fell out of history are told 410 and can begin anew', async () => {
    // History holds 64 MiB of replaced values: enough large updates push its beginning out.
    const from = await versionNow();
    await create('busy');
    for (let count = 0; count < 300; count += 1) {
      const object = role('busy', { filler: `${count}`.padEnd(250_000, '.') });
      const answer = await admin.request('PATCH', `${roles}/busy`, {
        headers: { 'content-type': 'application/merge-patch+json' },
        body: object,
      });
      assert.equal(answer.status, 200, answer.text.slice(0, 500));
    }
    const watch = await client.watch(`${roles}?watch=true&resourceVersion=${from}`);
    const [event] = await watch.rest();
    assert.deepEqual(
      [event?.type, event?.object.code, event?.object.reason],
      ['ERROR', 410, 'Expired'],
    );
    assert.match(event?.object.message ?? '', /^too old resource version: /);
    const anew = await client.watch(`${roles}?watch=true`);
    await anew.until(named('busy'));
    anew.close();
    await remove('busy');
  });
});

suite('a collection of more than a client can read at once', () => {
  for (const protocol of ['HTTP/1.1', 'HTTP/2'] as const) {
    test(`is told whole to whoever begins to watch it over ${protocol}`, async () => {
      // More than the 8 MiB that may lie unread later on.
      const names = Array.from({ length: 48 }, (_, at) => `large-${at}`);
      for (const name of names) {
        const body = role(name, { filler: '.'.repeat(250_000) });
        assert.equal((await admin.request('POST', roles, { body })).status, 201);
      }
      const connection = http2();
      const path = `${roles}?watch=true`;
      const watch = await (protocol === 'HTTP/2' ? connection.watch(path) : client.watch(path));
      const seen = new Set<string | undefined>();
      while (!names.every((name) => seen.has(name))) {
        const event = await watch.next();
        assert.notEqual(event, undefined, 'the watch ended early');
        seen.add(event?.object.metadata.name);
      }
      watch.close();
      connection.close();
      for (const name of names) await remove(name);
    });
  }
});
