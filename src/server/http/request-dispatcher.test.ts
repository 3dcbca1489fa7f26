import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { unauthorized } from '../../core/access/denial.ts';
import { type Caller, personCaller } from '../../core/access/identity.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { systemClock } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { type ApiRoute, type PresentedCredential, route } from '../../core/plane/route.ts';
import { type Listener, listenPlain } from '../listeners/listeners.ts';
import { Limits } from './limits.ts';
import { answerPlane } from './plane-exchange.ts';
import { RequestDispatcher } from './request-dispatcher.ts';

const kind = { kind: 'Thing', plural: 'things' };
const ada = personCaller('ada', '01');
const guest: Caller = { user: 'guest', groups: [], via: 'workload' };

/** Only handlers of this file move it. */
let monotonicMs = 0;
const clock = { ...systemClock, monotonic: () => monotonicMs };
/** Runs in each handler. */
let onHandle: () => void = () => undefined;

let listener: Listener;
let failures = 0;
let rights: { name?: string | undefined; user: string }[] = [];
let budget: string[] = [];
/** What the route's authenticator finds for a credential. */
const guests = new Map<string, () => Caller | undefined | Promise<Caller | undefined>>();
let shown: PresentedCredential[] = [];

/** With `readsBody`, the site reads the body before the handler runs. */
function hostBound(path: string, readsBody?: number): ApiRoute {
  return route({
    listener: 'api',
    method: 'POST',
    path,
    allow: 'rights',
    rights: [
      {
        verb: 'create',
        kind,
        nameOf: {
          request: ({ host }) => {
            if (host === undefined) throw new HansaError('HANSA_NOT_FOUND', 'which host?');
            return host;
          },
          shown: 'HOST',
        },
      },
    ],
    rowless: true,
    authenticator: {
      who: 'guests',
      authenticate: (presented) => {
        shown.push(presented);
        return guests.get(String(presented.headers['x-guest']))?.();
      },
    },
    ...(readsBody === undefined ? {} : { readsBody }),
    handle: (request) => {
      const answer = (body: Buffer) => ({
        status: 200,
        contentType: 'text/plain',
        body: `${request.caller.user} ${body.toString()}`,
      });
      onHandle();
      if (request.headers['x-fail'] !== undefined)
        throw new HansaError('HANSA_BAD_REQUEST', 'as you wish');
      if (request.headers['x-break'] !== undefined) throw new Error('a defect');
      return readsBody === undefined ? request.body(100).then(answer) : answer(request.content);
    },
  }) as ApiRoute;
}

before(async () => {
  const bound = hostBound('/things/here');
  const whole = hostBound('/things/whole', 100);
  const plain = route({
    listener: 'api',
    method: 'POST',
    path: '/plain',
    allow: 'authenticated',
    handle: () => ({ status: 200, contentType: 'text/plain', body: 'plain' }),
  }) as ApiRoute;
  const dispatcher = new RequestDispatcher({
    clock,
    random: new SeededRandom('dispatcher'),
    log: createLog({ clock, sink: { write: () => {} }, level: 'error', format: 'json' }),
    metrics: new MetricsRegistry(),
    resources: undefined as never,
    routes: [bound, whole, plain].map((one) => ({
      ...one,
      handle: (exchange, params) => answerPlane(exchange, params, one),
    })),
    authorizer: {
      authorize: ({ user }, { name }) => {
        rights.push({ user, name });
        return { allowed: name !== 'forbidden', reason: '' };
      },
      authorizePath: () => ({ allowed: false, reason: '' }),
    },
    mayRecord: ({ user }) => void budget.push(user),
    denied: () => undefined,
  });
  const limits = new Limits(
    { maxConcurrentRequests: 40, maxWatches: 1, requestsPerSecond: 0 },
    clock,
  );
  listener = await listenPlain(
    { host: '127.0.0.1', port: 0 },
    { maxHeaderBytes: 16_384, maxConnections: 100, requestSeconds: 30 },
    dispatcher.listener(
      {
        find: ({ headers }) => (headers.authorization === 'Bearer ada' ? ada : undefined),
        refusal: () => {
          failures += 1;
          return unauthorized('no credential');
        },
        present: ({ request, address, path, params, host, serverName }) => ({
          path,
          params,
          host,
          serverName,
          headers: request.headers,
          address,
          svid: undefined,
          hasCertificate: false,
          connection: request.socket,
        }),
      },
      limits,
    ),
    clock,
  );
});

after(() => listener.close(0));

function reset(): void {
  failures = 0;
  rights = [];
  budget = [];
  shown = [];
  guests.clear();
  onHandle = () => undefined;
}

/** What the site answers to these bytes, which come one after the other. */
function converse(writes: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(listener.address.port, '127.0.0.1');
    let text = '';
    socket.setNoDelay(true);
    socket.setEncoding('utf8');
    socket.on('data', (chunk) => (text += String(chunk)));
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
    const sendNext = async (): Promise<void> => {
      for (const bytes of writes) {
        await new Promise<void>((sent) => {
          socket.write(bytes, () => sent());
        });
        // The site, in this process, reads them before the next ones are sent.
        for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
      }
    };
    sendNext().catch(reject);
  });
}

function statusAndBody(text: string): [number, string] {
  const [head = '', answer = ''] = text.split('\r\n\r\n');
  return [Number(head.split(' ')[1]), answer];
}

/** The status and body of a request of these exact lines. */
async function send(
  path: string,
  lines: readonly string[],
  body = 'hello',
): Promise<[number, string]> {
  const head = [`POST ${path} HTTP/1.1`, ...lines, `content-length: ${body.length}`];
  return statusAndBody(
    await converse([`${head.join('\r\n')}\r\nconnection: close\r\n\r\n${body}`]),
  );
}

suite('a route that computes its object from the host', () => {
  test('is authorized for that object, before the handler and after the body', async () => {
    reset();
    const answer = await send('/things/here', ['Host: a.example:1', 'Authorization: Bearer ada']);
    assert.deepEqual(answer, [200, 'ada hello']);
    const right = { user: 'ada', name: 'a.example:1' };
    assert.deepEqual(rights, [right, right]);
    assert.deepEqual(budget, [], 'a route without audit records has no record budget');
  });

  test('refuses a caller without the right on that object', async () => {
    reset();
    const [status] = await send('/things/here', ['Host: forbidden', 'Authorization: Bearer ada']);
    assert.equal(status, 403);
  });

  test('gets no host where several differ, and one where they are equal', async () => {
    reset();
    const two = ['Host: a', 'Host: b', 'Authorization: Bearer ada'];
    assert.equal((await send('/things/here', two))[0], 404);
    const same = ['Host: a', 'host: a', 'Authorization: Bearer ada'];
    assert.equal((await send('/things/here', same))[0], 200);
    assert.equal((await send('/things/here', ['Authorization: Bearer ada']))[0], 400);
  });
});

suite('a route whose body the site reads', () => {
  const asAda = ['Host: a', 'Authorization: Bearer ada'];

  test('gets a body that came with the headers, after one check', async () => {
    reset();
    assert.deepEqual(await send('/things/whole', asAda), [200, 'ada hello']);
    assert.deepEqual(rights, [{ user: 'ada', name: 'a' }]);
    assert.deepEqual(await send('/things/whole', asAda, ''), [200, 'ada ']);
  });

  test('gets a body that came later, after a second check', async () => {
    reset();
    const answer = await sendInParts(['Content-Length: 10'], ['hello', 'world']);
    assert.deepEqual(answer, [200, 'ada helloworld']);
    assert.deepEqual(rights.length, 2);
  });

  test('gets a body in chunks', async () => {
    reset();
    const parts = ['5\r\nhello\r\n', '5\r\nworld\r\n0\r\n\r\n'];
    assert.deepEqual(await sendInParts(['Transfer-Encoding: chunked'], parts), [
      200,
      'ada helloworld',
    ]);
  });

  test('refuses a body that is too long, announced or not', async () => {
    reset();
    assert.equal((await send('/things/whole', asAda, 'x'.repeat(101)))[0], 413);
    const chunk = `65\r\n${'x'.repeat(101)}\r\n0\r\n\r\n`;
    assert.equal((await sendInParts(['Transfer-Encoding: chunked'], [chunk]))[0], 413);
  });

  test('answers in order where requests come at once, and refuses what its handler refuses', async () => {
    reset();
    const head = (more: string, body: string) =>
      `POST /things/whole HTTP/1.1\r\n${asAda.join('\r\n')}\r\n${more}content-length: ${body.length}\r\n\r\n${body}`;
    const text = await converse([
      head('', 'one') + head('x-fail: yes\r\n', 'two') + head('connection: close\r\n', 'three'),
    ]);
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]);
    assert.deepEqual(statuses, ['200', '400', '200']);
    assert.match(text, /ada one[^]*as you wish[^]*ada three/);
  });

  test('lets other work run where requests that come at once take long', async () => {
    const head = (more: string) =>
      `POST /things/whole HTTP/1.1\r\n${asAda.join('\r\n')}\r\n${more}content-length: 2\r\n\r\nok`;
    const requests = head('') + head('') + head('connection: close\r\n');
    const eventsOf = async (handlerMs: number): Promise<string> => {
      reset();
      const events: string[] = [];
      onHandle = () => {
        monotonicMs += handlerMs;
        events.push('handled');
        setImmediate(() => events.push('other work'));
      };
      const text = await converse([requests]);
      assert.equal(text.match(/200 OK/g)?.length, 3);
      return events.slice(0, 3).join(', ');
    };
    assert.equal(await eventsOf(0), 'handled, handled, handled');
    assert.equal(await eventsOf(10), 'handled, other work, handled');
  });

  test('frees the place of a request that ends before its body', async () => {
    reset();
    const ended = Array.from({ length: 20 }, () => {
      const socket = connect(listener.address.port, '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write(
        `POST /things/whole HTTP/1.1\r\n${asAda.join('\r\n')}\r\ncontent-length: 50\r\n\r\nabc`,
        () => socket.destroy(),
      );
      return once(socket, 'close');
    });
    await Promise.all(ended);
    // A quarter of forty places is ten: twenty that stay taken would refuse this one.
    let status = 429;
    while (status === 429) [status] = await send('/things/whole', asAda);
    assert.equal(status, 200);
  });

  test('accepts callers of its authenticator, at once or later', async () => {
    reset();
    guests.set('now', () => guest);
    guests.set('later', async () => guest);
    guests.set('never', async () => undefined);
    const ask = (credential: string) =>
      send('/things/whole', ['Host: a', `X-Guest: ${credential}`]);
    assert.deepEqual(await ask('now'), [200, 'guest hello']);
    assert.deepEqual(await ask('later'), [200, 'guest hello']);
    assert.equal(failures, 0);
    assert.equal((await ask('never'))[0], 401);
    assert.equal(failures, 1);
  });

  /** Sends the headers, and each part of the body after the site has seen what came before. */
  function sendInParts(
    lines: readonly string[],
    parts: readonly string[],
  ): Promise<[number, string]> {
    const head = ['POST /things/whole HTTP/1.1', ...asAda, ...lines, 'connection: close'];
    return converse([`${head.join('\r\n')}\r\n\r\n`, ...parts]).then(statusAndBody);
  }
});

suite('a route with its own authenticator', () => {
  const ask = (credential: string, path = '/things/here') =>
    send(path, ['Host: a', `X-Guest: ${credential}`]);

  test('does not use it for a caller that the site knows', async () => {
    reset();
    guests.set('g', () => guest);
    const lines = ['Host: a', 'X-Guest: g', 'Authorization: Bearer ada'];
    assert.deepEqual(await send('/things/here', lines), [200, 'ada hello']);
    assert.equal(shown.length, 0);
  });

  test('accepts its callers at once or later, and asks again after the body', async () => {
    reset();
    guests.set('now', () => guest);
    guests.set('later', async () => guest);
    for (const credential of ['now', 'later']) {
      shown = [];
      assert.deepEqual(await ask(credential), [200, 'guest hello'], credential);
      assert.equal(shown.length, 2);
      assert.equal(shown[0]?.host, 'a');
    }
    assert.equal(failures, 0, 'no failure was counted');
  });

  test('counts a failure after it found no caller', async () => {
    reset();
    guests.set('later', async () => undefined);
    assert.equal((await ask('unknown'))[0], 401);
    assert.equal((await ask('later'))[0], 401);
    assert.equal(failures, 2);
  });

  test('refuses a credential that ended while the body arrived', async () => {
    reset();
    let left = 1;
    guests.set('brief', async () => (left-- > 0 ? guest : undefined));
    assert.equal((await ask('brief'))[0], 401);
    assert.equal(failures, 1);
  });

  test('answers 503 where it cannot check, and counts no failure', async () => {
    reset();
    guests.set('down', async () => {
      throw new HansaError('HANSA_UNAVAILABLE', 'the cluster does not answer');
    });
    assert.equal((await ask('down'))[0], 503);
    assert.equal(failures, 0);
  });

  test('does not open other routes to its callers', async () => {
    reset();
    guests.set('g', () => guest);
    assert.equal((await ask('g', '/plain'))[0], 401);
    assert.equal((await ask('g', '/nothing'))[0], 401);
  });

  test('lets one address wait for it only a bounded number of times', async () => {
    reset();
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    guests.set('slow', () => gate.then(() => guest));
    const waiting = Array.from({ length: 12 }, () => ask('slow'));
    // A quarter of forty may wait. The others are refused while these still wait.
    const refused = await Promise.race(waiting);
    assert.equal(refused[0], 429);
    release();
    const statuses = (await Promise.all(waiting)).map(([status]) => status);
    assert.equal(statuses.filter((status) => status === 200).length, 10);
  });
});
