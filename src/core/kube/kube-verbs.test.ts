import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError, hasCode } from '../errors/error.ts';
import type { KubeRequest, KubeResponse, KubeStream } from './kube-client.ts';
import { KubeStatusError, unreachableReason } from './kube-errors.ts';
import { kubePath } from './kube-path.ts';
import { KubeVerbs } from './kube-verbs.ts';

type Reply = { status?: number; headers?: Record<string, string>; body?: unknown };

/** Answers each request by the function. */
class ScriptedClient extends KubeVerbs {
  readonly requests: KubeRequest[] = [];
  readonly #reply: (request: KubeRequest, count: number) => Reply;

  constructor(reply: (request: KubeRequest, count: number) => Reply) {
    super('app1.example:6443');
    this.#reply = reply;
  }

  request(request: KubeRequest): Promise<KubeResponse> {
    this.requests.push(request);
    const { status = 200, headers = {}, body = {} } = this.#reply(request, this.requests.length);
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return Promise.resolve({ status, headers, body: Buffer.from(text) });
  }

  stream(): Promise<KubeStream> {
    throw new Error('not used');
  }

  close(): void {}
}

const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } };
const path = '/api/v1/namespaces/x/configmaps';
const statusBody = (fields: object): object => ({ apiVersion: 'v1', kind: 'Status', ...fields });

async function statusErrorOf(reply: Reply): Promise<KubeStatusError> {
  const client = new ScriptedClient(() => reply);
  try {
    await client.get(path);
  } catch (caught) {
    assert.ok(caught instanceof KubeStatusError, String(caught));
    return caught;
  }
  return assert.fail('it resolved');
}

suite('a verb', () => {
  const sent = async (act: (client: ScriptedClient) => Promise<unknown>): Promise<KubeRequest> => {
    const client = new ScriptedClient(() => ({ body: object }));
    await act(client);
    return client.requests[0] ?? assert.fail('nothing was sent');
  };

  test('reads, creates, replaces and patches objects', async () => {
    assert.deepEqual(await sent((client) => client.get(path)), { method: 'GET', path });
    const query = { fieldManager: 'hansa' };
    assert.deepEqual(await sent((client) => client.create(path, object)), {
      method: 'POST',
      path,
      body: object,
      query,
    });
    assert.deepEqual(await sent((client) => client.replace(path, object)), {
      method: 'PUT',
      path,
      body: object,
      query,
    });
    const contentType = 'application/merge-patch+json';
    assert.deepEqual(await sent((client) => client.patch(path, { data: {} })), {
      method: 'PATCH',
      path,
      body: { data: {} },
      contentType,
      query,
    });
  });

  test('applies as the field manager hansa, by force and as a trial only where told', async () => {
    const plain = await sent((client) => client.apply(path, object));
    assert.equal(plain.method, 'PATCH');
    assert.equal(plain.contentType, 'application/apply-patch+yaml');
    assert.deepEqual(plain.query, { fieldManager: 'hansa', force: 'false' });
    const forced = await sent((client) =>
      client.apply(path, object, { force: true, dryRun: true }),
    );
    assert.deepEqual(forced.query, { fieldManager: 'hansa', force: 'true', dryRun: 'All' });
  });

  test('that deletes with preconditions sends them', async () => {
    const client = new ScriptedClient(() => ({}));
    await client.delete(path);
    await client.delete(path, { uid: 'u', resourceVersion: '5' });
    const preconditions = { uid: 'u', resourceVersion: '5' };
    assert.deepEqual(
      client.requests.map(({ body }) => body),
      [undefined, { apiVersion: 'v1', kind: 'DeleteOptions', preconditions }],
    );
  });

  test('that deletes resolves where the object is gone already', async () => {
    await new ScriptedClient(() => ({ status: 404 })).delete(path);
    await new ScriptedClient(() => ({ status: 202, body: 'accepted' })).delete(path);
    await assert.rejects(new ScriptedClient(() => ({ status: 403 })).delete(path), KubeStatusError);
  });

  for (const [what, body] of [
    ['is not JSON', '<html>'],
    ['is empty', ''],
    ['is a text', '"object"'],
    ['is null', 'null'],
    ['has no kind', { apiVersion: 'v1', metadata: {} }],
    ['has no metadata', { apiVersion: 'v1', kind: 'ConfigMap' }],
    ['is nested deeply', '['.repeat(10_000)],
  ] as const) {
    test(`refuses a response that ${what}`, async () => {
      const client = new ScriptedClient(() => ({ body }));
      await assert.rejects(client.get(path), (caught) => unreachableReason(caught) === 'protocol');
    });
  }

  test('quotes no response that it cannot read, which may be a secret', async () => {
    const client = new ScriptedClient(() => ({ body: '{"token": hunter2' }));
    await assert.rejects(client.get(path), (caught) => {
      const { message, cause } = caught as HansaError;
      assert.doesNotMatch(`${message} ${String(cause)}`, /hunter2/);
      return true;
    });
  });
});

suite('a list', () => {
  const listed = (items: unknown, next?: string): Reply => ({
    body: { apiVersion: 'v1', kind: 'ConfigMapList', metadata: { continue: next }, items },
  });
  const named = (name: string): object => ({ metadata: { name } });

  test('is read page by page, and its items get kind and apiVersion', async () => {
    const client = new ScriptedClient((_request, count) =>
      count === 1 ? listed([named('a')], 'next+page') : listed([named('b')]),
    );
    const items = await client.list(path, { labelSelector: 'x=y' });
    assert.deepEqual(items, [
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } },
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'b' } },
    ]);
    const [first, second] = client.requests;
    assert.deepEqual(first?.query, { limit: '500', labelSelector: 'x=y' });
    assert.deepEqual(second?.query, { limit: '500', labelSelector: 'x=y', continue: 'next+page' });
  });

  test('has smaller pages where objects are large', async () => {
    const names = Array.from({ length: 40 }, (_, at) => String(at));
    const client = new ScriptedClient(({ query }) => {
      const first = Number(query?.['continue'] ?? 0);
      const last = first + Number(query?.['limit']);
      if (last - first > 100) throw new HansaError('HANSA_TOO_LARGE', 'more than 16 MiB');
      // Of one page, more than a client takes apart.
      if (last - first > 10) return listed([{ ...named('x'), values: Array(500_001).fill(0) }]);
      return listed(names.slice(first, last).map(named), last < 40 ? String(last) : '');
    });
    const items = await client.list(path);
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name),
      names,
    );
    assert.deepEqual(
      client.requests.map(({ query }) => query?.['limit']),
      ['500', '125', '32', '8', '8', '8', '8', '8'],
    );
  });

  test('with an object that is larger than a page is refused', async () => {
    const client = new ScriptedClient(() => {
      throw new HansaError('HANSA_TOO_LARGE', 'more than 16 MiB');
    });
    await assert.rejects(client.list(path), (caught) => hasCode(caught, 'HANSA_TOO_LARGE'));
    assert.equal(client.requests.at(-1)?.query?.['limit'], '1');
    await assert.rejects(client.get(path), (caught) => hasCode(caught, 'HANSA_TOO_LARGE'));
  });

  test('without items is empty', async () => {
    assert.deepEqual(await new ScriptedClient(() => listed(null)).list(path), []);
    assert.deepEqual(await new ScriptedClient(() => listed([])).list(path), []);
  });

  test('begins again once where the server forgot its place', async () => {
    const client = new ScriptedClient(({ query }, count) => {
      if (count <= 2 && query?.['continue'] !== undefined) return { status: 410 };
      return query?.['continue'] === undefined ? listed([named('a')], 'x') : listed([named('b')]);
    });
    const items = await client.list(path);
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name),
      ['a', 'b'],
    );
    const forgetful = new ScriptedClient(({ query }) =>
      query?.['continue'] === undefined ? listed([named('a')], 'x') : { status: 410 },
    );
    await assert.rejects(forgetful.list(path), KubeStatusError);
    assert.equal(forgetful.requests.length, 4);
  });

  test('has all copies of a large cluster set', async () => {
    const page = Array.from({ length: 500 }, (_, index) => named(String(index)));
    const client = new ScriptedClient((_request, count) => listed(page, count < 100 ? 'x' : ''));
    assert.equal((await client.list(path)).length, 50_000);
  });

  test('that never ends is refused', async () => {
    const empty = new ScriptedClient(() => listed([], 'again'));
    await assert.rejects(empty.list(path), (caught) => hasCode(caught, 'HANSA_TOO_LARGE'));
    const page = Array.from({ length: 500 }, (_, index) => named(String(index)));
    const full = new ScriptedClient(() => listed(page, 'again'));
    await assert.rejects(full.list(path), (caught) => hasCode(caught, 'HANSA_TOO_LARGE'));
    assert.ok(full.requests.length < 210);
  });

  for (const [what, reply] of [
    ['is a single object', { body: object }],
    ['has items that are no objects', listed(['a'])],
    ['has items without metadata', listed([{}])],
    [
      'has a number as its place',
      { body: { ...object, kind: 'XList', metadata: { continue: 1 } } },
    ],
    ['has an object as items', listed({})],
  ] as const) {
    test(`that ${what} is refused`, async () => {
      const client = new ScriptedClient(() => reply);
      await assert.rejects(client.list(path), (caught) => unreachableReason(caught) === 'protocol');
    });
  }
});

suite('a status error', () => {
  test('tells status, reason, message and when to retry', async () => {
    const error = await statusErrorOf({
      status: 409,
      headers: { 'retry-after': '5' },
      body: statusBody({ reason: 'Conflict', message: 'it changed', code: 409 }),
    });
    assert.equal(error.status, 409);
    assert.equal(error.reason, 'Conflict');
    assert.equal(error.serverMessage, 'it changed');
    assert.equal(error.retryAfterSeconds, 5);
    assert.equal(
      error.message,
      `Cannot GET ${path}: the API server app1.example:6443 answered 409 Conflict: it changed`,
    );
    assert.equal(error.details?.retryAfterSeconds, 5);
  });

  test('takes the time to retry from the Status where there is no header, and bounds it', async () => {
    const body = statusBody({ details: { retryAfterSeconds: 9 } });
    assert.equal((await statusErrorOf({ status: 429, body })).retryAfterSeconds, 9);
    const long = { 'retry-after': '999999' };
    assert.equal((await statusErrorOf({ status: 429, headers: long })).retryAfterSeconds, 3600);
    const date = { 'retry-after': 'Fri, 31 Dec 1999 23:59:59 GMT' };
    assert.equal(
      (await statusErrorOf({ status: 503, headers: date })).retryAfterSeconds,
      undefined,
    );
    const odd = statusBody({ details: { retryAfterSeconds: -1 } });
    assert.equal((await statusErrorOf({ status: 503, body: odd })).retryAfterSeconds, undefined);
  });

  test('shows a hostile message in one bounded line without control characters', async () => {
    const message = `\u001b[31mred\r\nsecond\u202eline ${'x'.repeat(5000)}`;
    const error = await statusErrorOf({ status: 500, body: statusBody({ message }) });
    assert.match(error.serverMessage, /^\[31mred second line x+…$/);
    assert.ok(error.serverMessage.length <= 1025);
  });

  test('shows the text of a proxy, and stands without any', async () => {
    const html = await statusErrorOf({ status: 502, body: '<h1>Bad\nGateway</h1>' });
    assert.equal(html.serverMessage, '<h1>Bad Gateway</h1>');
    assert.equal(html.reason, '');
    const nothing = await statusErrorOf({ status: 500, body: '' });
    assert.match(nothing.message, /answered 500: no explanation$/);
    const other = await statusErrorOf({
      status: 500,
      body: statusBody({ message: {}, reason: 1 }),
    });
    assert.match(other.message, /answered 500: no explanation$/);
  });
});

suite('a path', () => {
  test('takes each value as one segment', () => {
    const name = 'a/b?c#d e';
    assert.equal(kubePath`/api/v1/namespaces/${name}`, '/api/v1/namespaces/a%2Fb%3Fc%23d%20e');
    assert.equal(kubePath`/a/${'x'}/b/${'y'}/c`, '/a/x/b/y/c');
  });

  test('refuses values that would change its shape', () => {
    for (const name of ['', '.', '..']) assert.throws(() => kubePath`/a/${name}/b`, TypeError);
  });
});
