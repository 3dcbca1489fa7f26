import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2, createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { after, suite, test } from 'node:test';
import { Answers } from '../http/answers.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import {
  BundleTable,
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import { TlsTransport } from '../../core/identity/tls/tls-transport.ts';
import type { Connection } from '../../core/identity/tls/transport.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { ApiRequest, FederationRoute } from '../../core/plane/route.ts';
import { FederationDispatcher } from './federation-listener.ts';
import { Limits } from '../http/limits.ts';
import { silentLog } from '../../core/log/test-log.ts';

const lubeck = forgeRoot('lubeck.example');
const site = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/site');
const bruges = forgeRoot('bruges.example');
const peer = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');

/** Undefined for a caller that the API does not know. */
function userOf({ caller }: Partial<ApiRequest>): string | undefined {
  return caller?.via === 'anonymous' ? undefined : caller?.user;
}

const routes: readonly FederationRoute[] = [
  {
    listener: 'federation',
    method: 'GET',
    path: '/who',
    allow: 'public',
    handle: (request) => ({
      status: 200,
      contentType: 'application/json',
      body: JSON.stringify({
        peer: request.svid?.id.toString(),
        presented: request.peerChain[0]?.fingerprint,
        caller: userOf(request),
      }),
    }),
  },
  {
    listener: 'federation',
    method: 'POST',
    path: '/echo/{word}',
    allow: 'public',
    handle: async (request) => ({
      status: 200,
      contentType: 'text/plain',
      body: `${request.params['word']} ${(await request.body(100)).toString()}`,
    }),
  },
  {
    listener: 'federation',
    method: 'GET',
    path: '/closed',
    allow: 'public',
    handle: ({ svid }) => {
      throw svid === undefined
        ? new HansaError('HANSA_UNAUTHENTICATED', 'This needs an SVID.')
        : new HansaError('HANSA_FORBIDDEN', 'Not this one.');
    },
  },
  {
    listener: 'federation',
    method: 'GET',
    path: '/broken',
    allow: 'public',
    handle: () => {
      throw new Error('the password is swordfish');
    },
  },
];

/** What a slow handler of a route for peers does before it answers. */
let working: () => Promise<void> = () => Promise.resolve();
const forPeers: FederationRoute = {
  listener: 'federation',
  method: 'GET',
  path: '/slow',
  allow: 'peer',
  handle: async (request) => {
    await working();
    return { status: 200, contentType: 'text/plain', body: `for ${request.peer.name}` };
  },
};

interface Denial {
  readonly peer: string | undefined;
  readonly code: string;
  readonly route: string;
}

const closing: (() => void)[] = [];
after(() => {
  for (const close of closing) close();
});

async function scene() {
  const bundles = new BundleTable().set('bruges.example', bruges);
  const denials: Denial[] = [];
  const suspended = new Set<string>();
  const dispatcher = new FederationDispatcher({
    answers: new Answers(systemClock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    metrics: new MetricsRegistry(),
    limits: new Limits(
      { maxConcurrentRequests: 100, maxWatches: 0, requestsPerSecond: 0 },
      systemClock,
    ),
    bodyWithinMs: 1_000,
    bundles,
    routes: [...routes, forPeers],
    directories: {
      peers: {
        find: (svid) => {
          const trustDomain = svid?.id.trustDomain;
          if (trustDomain === undefined || suspended.has(trustDomain.name)) return 'it is no peer';
          return { name: trustDomain.name, uid: 'u', trustDomain };
        },
        lacks: () => undefined,
        refuse: (_request, reason) => new HansaError('HANSA_FORBIDDEN', `Refused: ${reason}.`),
        deny: () => new HansaError('HANSA_FORBIDDEN', 'Denied.'),
        onChange: () => () => undefined,
      },
    },
    denied: (who, { code }, { route }) => denials.push({ peer: who, code, route }),
  });
  const server = createSecureServer(
    { ...svidServerOptions(credentialOf(site)), allowHTTP1: true },
    dispatcher.listener,
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const connectAs = async (who: Forged | undefined): Promise<Connection> => {
    const transport = new TlsTransport({
      clock: systemClock,
      credential: () => credentialOf(who ?? site),
    });
    const connection = await transport.connect({
      url,
      asSite: who !== undefined,
      timeoutMs: 60_000,
      verify: () => undefined,
    });
    closing.push(() => connection.close());
    return connection;
  };
  return { bundles, denials, suspended, url, connectAs };
}

const get = (path: string, headers: Record<string, string> = {}) =>
  ({ method: 'GET', path, headers }) as const;

async function askWho(connection: Connection, headers: Record<string, string> = {}) {
  const { body } = await connection.request(get('/who', headers), 10_000);
  return JSON.parse(body.toString()) as {
    readonly peer?: string;
    readonly presented?: string;
    readonly caller?: string;
  };
}

const json = { 'content-type': 'application/json' };

suite('who calls', () => {
  test('is known by an SVID that this site believes, and is nobody of the API', async () => {
    const { connectAs } = await scene();
    assert.deepEqual(await askWho(await connectAs(peer)), {
      peer: 'spiffe://bruges.example/hansa/site',
      presented: peer.certificate.fingerprint,
    });
  });

  test('is nobody without a certificate', async () => {
    const { connectAs } = await scene();
    assert.deepEqual(await askWho(await connectAs(undefined)), {});
  });

  test('is shown but not believed with a certificate of a strange domain, or of a false authority', async () => {
    const { connectAs } = await scene();
    for (const stranger of [
      forgeLeaf(forgeRoot('reval.example'), 'spiffe://reval.example/hansa/site'),
      forgeLeaf(forgeRoot('bruges.example'), 'spiffe://bruges.example/hansa/site'),
      forgeLeaf(bruges, 'spiffe://lubeck.example/hansa/site'),
      forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site', { notAfterMs: Date.UTC(2021, 0) }),
    ]) {
      assert.deepEqual(await askWho(await connectAs(stranger)), {
        presented: stranger.certificate.fingerprint,
      });
    }
  });

  test('is not changed by what headers claim', async () => {
    const { connectAs } = await scene();
    const forged = {
      'x-forwarded-client-cert': 'URI=spiffe://bruges.example/hansa/site',
      'x-remote-user': 'admin',
      'x-forwarded-for': '127.0.0.1',
      authorization: 'Bearer hansa.anything',
      'impersonate-user': 'admin',
    };
    assert.deepEqual(await askWho(await connectAs(undefined), forged), {});
  });

  test('is out at the next request of a standing connection when its bundle is gone', async () => {
    const { connectAs, bundles } = await scene();
    const connection = await connectAs(peer);
    assert.equal((await askWho(connection)).peer, 'spiffe://bruges.example/hansa/site');
    bundles.remove('bruges.example');
    assert.equal((await askWho(connection)).peer, undefined);
    bundles.set('bruges.example', bruges);
    assert.equal((await askWho(connection)).peer, 'spiffe://bruges.example/hansa/site');
  });
});

suite('a peer whose call is under way', () => {
  const slow = async (change: (parts: Awaited<ReturnType<typeof scene>>) => void) => {
    const parts = await scene();
    const connection = await parts.connectAs(peer);
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    working = () => {
      started.resolve();
      return finish.promise;
    };
    const answer = connection.request(get('/slow'), 10_000);
    await started.promise;
    change(parts);
    finish.resolve();
    const { status, body } = await answer;
    return { status, body: body.toString(), denials: parts.denials };
  };

  test('gets its answer', async () => {
    const { status, body } = await slow(() => undefined);
    assert.deepEqual([status, body], [200, 'for bruges.example']);
  });

  test('gets none if it is suspended, or its bundle ends, before the answer is ready', async () => {
    for (const change of [
      ({ suspended }: Awaited<ReturnType<typeof scene>>) => suspended.add('bruges.example'),
      ({ bundles }: Awaited<ReturnType<typeof scene>>) => bundles.remove('bruges.example'),
    ]) {
      const { status, body, denials } = await slow(change);
      assert.equal(status, 403);
      assert.doesNotMatch(body, /for bruges/);
      assert.deepEqual(
        denials.map(({ route }) => route),
        ['/slow'],
      );
    }
  });
});

suite('what is answered', () => {
  test('a route gets its parameter and its body', async () => {
    const { connectAs } = await scene();
    const connection = await connectAs(undefined);
    const { body } = await connection.request(
      { method: 'POST', path: '/echo/a%20b', headers: json, body: Buffer.from('hello') },
      100,
    );
    assert.equal(body.toString(), 'a b hello');
  });

  test('a body above the limit is refused', async () => {
    const { connectAs } = await scene();
    const connection = await connectAs(undefined);
    const { status } = await connection.request(
      { method: 'POST', path: '/echo/a', headers: json, body: Buffer.alloc(101) },
      10_000,
    );
    assert.equal(status, 413);
  });

  test('an unknown path is not found, and a wrong method not allowed', async () => {
    const { connectAs } = await scene();
    const connection = await connectAs(undefined);
    assert.equal((await connection.request(get('/apis'), 10_000)).status, 404);
    assert.equal((await connection.request(get('/echo/a'), 10_000)).status, 405);
  });

  test('refusals are told to the audit log, with who it was where that is proven', async () => {
    const { connectAs, denials } = await scene();
    assert.equal((await (await connectAs(undefined)).request(get('/closed'), 10_000)).status, 401);
    assert.equal((await (await connectAs(peer)).request(get('/closed'), 10_000)).status, 403);
    assert.deepEqual(denials, [
      { peer: undefined, code: 'HANSA_UNAUTHENTICATED', route: '/closed' },
      {
        peer: 'spiffe://bruges.example/hansa/site',
        code: 'HANSA_FORBIDDEN',
        route: '/closed',
      },
    ]);
  });

  test('a fault of ours says nothing of itself', async () => {
    const { connectAs } = await scene();
    const { status, body } = await (await connectAs(undefined)).request(get('/broken'), 10_000);
    assert.equal(status, 500);
    assert.doesNotMatch(body.toString(), /swordfish/);
  });

  test('HTTP/2 gets the same', async () => {
    const { url } = await scene();
    const { certificateChain, privateKey } = credentialOf(peer);
    const session = connectHttp2(url, {
      rejectUnauthorized: false,
      cert: certificateChain,
      key: privateKey,
    });
    closing.push(() => session.destroy());
    const stream = session.request({ ':path': '/who' });
    let text = '';
    for await (const chunk of stream.setEncoding('utf8')) text += chunk as string;
    assert.equal(
      (JSON.parse(text) as { peer?: string }).peer,
      'spiffe://bruges.example/hansa/site',
    );
    session.close();
  });

  test('1,000 requests that never bring their body leave room for peers and bundles', async () => {
    const { url, connectAs, denials } = await scene();
    const session = connectHttp2(url, { rejectUnauthorized: false });
    session.on('error', () => undefined);
    closing.push(() => session.destroy());
    const heads: Promise<readonly { readonly ':status': number }[]>[] = [];
    for (let index = 0; index < 1000; index++) {
      const half = session.request({ ':method': 'POST', ':path': '/echo/a', ...json });
      half.on('error', () => undefined).resume();
      heads.push(once(half, 'response'));
    }
    // Meanwhile others are served: whoever asks for something, and a peer that sends something.
    assert.deepEqual(await askWho(await connectAs(undefined)), {});
    const { status } = await (await connectAs(peer)).request(
      { method: 'POST', path: '/echo/a', headers: json, body: Buffer.from('hello') },
      100,
    );
    assert.equal(status, 200);
    const statuses = (await Promise.all(heads)).map(([head]) => head?.[':status']);
    session.destroy();
    const refused = statuses.filter((each) => each === 429).length;
    assert.ok(refused >= 900, `${refused} were refused at once`);
    assert.equal(statuses.filter((each) => each === 504).length, 1000 - refused);
    assert.deepEqual([...new Set(denials.map(({ code }) => code))].toSorted(), [
      'HANSA_TIMEOUT',
      'HANSA_TOO_MANY_REQUESTS',
    ]);
  });
});
