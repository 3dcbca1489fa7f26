import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { createRegistry } from '../../api/registry.ts';
import { personCaller } from '../../core/access/identity.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { systemClock as clock } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { Answers } from '../http/answers.ts';
import { Exchange } from '../http/exchange.ts';
import { ResourceHandler } from './handler.ts';
import { Lister } from './lister.ts';
import { boatKind } from './test-kind.ts';
import { Watches } from './watches.ts';
import { ResourceWriter } from './writer.ts';

interface Boat {
  readonly metadata: { readonly name: string; readonly uid: string; readonly namespace?: string };
  readonly warning?: string | undefined;
  readonly status?: { readonly state?: string };
}

const kind = { ...boatKind, liveStatus: ['state'] };
const random = new SeededRandom('handler');
const answers = new Answers(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 });
const server = createServer();
let store: Store;

before(async () => {
  store = await openStore({ driver: 'memory' }, { clock });
  const handler = new ResourceHandler({
    registry: createRegistry([kind]),
    store,
    clock,
    random,
    authorizer: { authorize: () => ({ allowed: true, reason: '' }) },
    writer: new ResourceWriter({
      store,
      clock,
      random,
      admit: () => [],
      auditRow: () => undefined,
    }),
    lister: new Lister({ store, clock, turns: answers.turns }),
    watches: new Watches({
      store,
      clock,
      random,
      answers,
    }),
    maxRequestBytes: 4096,
  });
  const identify = {
    find: () => personCaller('anna', '01'),
    refusal: () => new HansaError('HANSA_UNAUTHENTICATED', 'Unauthorized'),
  };
  server.on('request', (incoming, response) => {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://site');
    const around = { clock, random, answers, bodyWithinMs: 1000 };
    const exchange = new Exchange(incoming, response, pathname, searchParams, identify, around);
    const asked = handler.parse(incoming.method ?? '', pathname.slice(1), searchParams);
    assert.ok(asked);
    handler.handle(exchange, asked).catch((error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});

after(async () => {
  server.close();
  server.closeAllConnections();
  await store.close();
});

function ask(method: string, path: string, body?: object): Promise<Boat> {
  return new Promise((resolve, reject) => {
    const { port } = server.address() as AddressInfo;
    const patch = path.includes('fieldManager')
      ? 'application/apply-patch+yaml'
      : 'application/merge-patch+json';
    const type = method === 'PATCH' ? patch : 'application/json';
    request({ port, method, path, headers: { 'content-type': type } })
      .on('response', (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('end', () => {
          const boat = JSON.parse(Buffer.concat(chunks).toString()) as Boat;
          resolve({ ...boat, warning: answer.headers['warning'] });
        });
      })
      .on('error', reject)
      .end(body && JSON.stringify(body));
  });
}

test('every answer about an object has its facts: of a read, of a write, and of a dry run', async () => {
  const { metadata } = await ask('POST', '/boats', {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Boat',
    metadata: { name: 'kogge' },
    spec: { berths: 2 },
  });
  store.facts.merge('boats', 'kogge', { uid: metadata.uid, state: 'at sea' });
  const change = { spec: { berths: 3 } };
  const given = {
    // kubectl diff holds the first two against each other.
    read: await ask('GET', '/boats/kogge'),
    tried: await ask('PATCH', '/boats/kogge?dryRun=All', change),
    written: await ask('PATCH', '/boats/kogge', change),
  };
  const states = Object.entries(given).map(([how, { status }]) => [how, status?.state]);
  assert.deepEqual(Object.fromEntries(states), {
    read: 'at sea',
    tried: 'at sea',
    written: 'at sea',
  });
});

test('a namespace is ignored, and every way to write says so', async () => {
  const object = (name: string) => ({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Boat',
    metadata: { name, namespace: 'shop' },
    spec: { berths: 2 },
  });
  const warningOf = async (method: string, path: string, body: object) => {
    const { warning, metadata } = await ask(method, path, body);
    assert.equal(metadata.namespace, undefined);
    return warning;
  };
  const said = /^299 - "metadata\.namespace is ignored: /;
  assert.match((await warningOf('POST', '/boats', object('hulk'))) ?? '', said);
  const { metadata } = await ask('GET', '/boats/hulk');
  const next = { ...object('hulk'), metadata: { ...metadata, namespace: 'shop' } };
  assert.match((await warningOf('PUT', '/boats/hulk', next)) ?? '', said);
  assert.match(
    (await warningOf('PATCH', '/boats/hulk', { metadata: { namespace: 'a' } })) ?? '',
    said,
  );
  const apply = '/boats/prahm?fieldManager=anna';
  assert.match((await warningOf('PATCH', apply, object('prahm'))) ?? '', said);
  assert.equal(await warningOf('PATCH', '/boats/hulk', { spec: { berths: 4 } }), undefined);
});
