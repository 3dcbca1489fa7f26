// Slow, greedy and hostile HTTP clients. The site limits each of them, and other clients are not
// affected.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  adminClient,
  ApiClient,
  createToken,
  Http2Client,
  named,
  RawConnection,
  Refusal,
  resources,
  role,
  type Target,
  type WatchReader,
} from './api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from './daemon.ts';

const roles = `${resources}/roles`;
const dataDir = join(temporaryFolder(), 'lubeck');
const limits = {
  maxRequestBytes: 1024 * 1024,
  maxHeaderBytes: 8192,
  maxConcurrentRequests: 12,
  maxWatches: 20,
};
let site: Daemon;
let admin: ApiClient;
let client: ApiClient;
let target: Target;
/** Of four callers, who may have all places together. */
const tokens: string[] = [];

before(async () => {
  site = await startDaemon(dataDir, [
    `--limits-max-request-bytes=${limits.maxRequestBytes}`,
    `--limits-max-header-bytes=${limits.maxHeaderBytes}`,
    `--limits-max-concurrent-requests=${limits.maxConcurrentRequests}`,
    `--limits-max-watches=${limits.maxWatches}`,
    '--limits-request-seconds=8',
  ]);
  admin = adminClient(dataDir);
  target = {
    origin: site.endpoints.api,
    caFile: join(dataDir, 'ca.pem'),
    token: await createToken(admin, 'caller', 'admin'),
  };
  for (const name of ['one', 'two', 'three', 'four']) {
    tokens.push(await createToken(admin, name, 'admin'));
  }
  client = new ApiClient(target);
});
after(async () => {
  client.close();
  assert.equal(await site.signal('SIGTERM'), 0);
  assert.doesNotMatch(site.log(), /cannot send an error response|"level":"error"/);
});

const authorization = (): string => `Authorization: Bearer ${target.token}\r\n`;

async function othersAreServed(): Promise<void> {
  assert.equal((await client.get(`${resources}/sites/site`)).status, 200);
}

function tcp(): Promise<Socket> {
  const { hostname, port } = new URL(target.origin);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  return once(socket, 'connect').then(() => socket);
}

/** Sends a byte at a time until the other side has had enough. */
async function drip(connection: RawConnection, bytes: string): Promise<string> {
  let at = 0;
  const timer = setInterval(() => {
    connection.send(bytes[at % bytes.length] as string);
    at += 1;
  }, 50);
  try {
    return await connection.closed();
  } finally {
    clearInterval(timer);
  }
}

suite('slow clients', { concurrency: true }, () => {
  test('a head that comes byte by byte is cut off', async () => {
    const connection = await RawConnection.open(target);
    connection.send('GET /healthz HTTP/1.1\r\nX-Slow: ');
    assert.match(await drip(connection, 'a'), /^HTTP\/1\.1 408 |^$/);
    await othersAreServed();
  });

  test('a body that comes byte by byte is cut off', async () => {
    const connection = await RawConnection.open(target);
    connection.send(
      `POST ${roles} HTTP/1.1\r\nHost: a\r\n${authorization()}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
    );
    assert.match(await drip(connection, ' '), /^HTTP\/1\.1 504 [^]*"reason":"Timeout"/);
    await othersAreServed();
  });

  test('a body that comes byte by byte over HTTP/2 is cut off', async () => {
    const connection = new Http2Client(target);
    const stream = connection.open('POST', roles, { 'content-type': 'application/json' });
    stream.on('error', () => undefined);
    const timer = setInterval(() => stream.write(' '), 50);
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    clearInterval(timer);
    assert.equal(headers[':status'], 504);
    connection.close();
    await othersAreServed();
  });

  test('a TLS handshake that never ends is cut off', async () => {
    const silent = await tcp();
    const closed = once(silent, 'close');
    silent.resume();
    await closed;
    await othersAreServed();
  });

  test('a thousand silent connections keep nobody out', async () => {
    const sockets = await Promise.all(Array.from({ length: 1000 }, tcp));
    await othersAreServed();
    const fresh = new ApiClient(target);
    assert.equal((await fresh.get(`${resources}/sites/site`)).status, 200);
    fresh.close();
    for (const socket of sockets) socket.destroy();
  });
});

suite('large requests', () => {
  test('a head over the limit gets 431', async () => {
    const connection = await RawConnection.open(target);
    connection.send(`GET /healthz HTTP/1.1\r\nHost: a\r\nX-Large: ${'a'.repeat(20_000)}\r\n\r\n`);
    assert.match(await connection.closed(), /^HTTP\/1\.1 431 /);
  });

  test('a head over the limit is refused over HTTP/2, too', async () => {
    const connection = new Http2Client(target);
    // The limit binds clients from when they have acknowledged it; until then a larger one does.
    assert.equal((await connection.request('GET', '/healthz')).status, 200);
    const headers = { 'x-large': 'a'.repeat(20_000) };
    const outcome = await connection.request('GET', '/healthz', { headers }).then(
      ({ status }) => status,
      () => 'reset',
    );
    assert.ok(outcome === 431 || outcome === 'reset', String(outcome));
    connection.close();
    await othersAreServed();
  });

  test('a body that announces too much gets 413 before it is sent', async () => {
    const connection = await RawConnection.open(target);
    connection.send(
      `POST ${roles} HTTP/1.1\r\nHost: a\r\n${authorization()}Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n`,
    );
    const answer = await connection.closed();
    assert.match(answer, /^HTTP\/1\.1 413 /);
    assert.match(answer, /"message":"Request entity too large: limit is 1048576"/);
    assert.match(answer, /^connection: close\r$/im);
  });

  test('a body that is too large gets 413 though it is sent in full, and the client sees it', async () => {
    for (const chunked of [false, true]) {
      const connection = await RawConnection.open(target);
      const piece = Buffer.alloc(64 * 1024, ' ');
      const count = 320;
      connection.send(
        `POST ${roles} HTTP/1.1\r\nHost: a\r\n${authorization()}Content-Type: application/json\r\n${
          chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${count * piece.length}`
        }\r\n\r\n`,
      );
      for (let at = 0; at < count; at += 1) {
        if (chunked) connection.send(`${piece.length.toString(16)}\r\n`);
        connection.send(piece);
        if (chunked) connection.send('\r\n');
      }
      if (chunked) connection.send('0\r\n\r\n');
      assert.match(
        await connection.closed(),
        /^HTTP\/1\.1 413 /,
        chunked ? 'chunked' : 'announced',
      );
    }
    await othersAreServed();
  });

  test('a body that is too large gets 413 over HTTP/2, and the connection goes on', async () => {
    const connection = new Http2Client(target);
    const answer = await connection.request('POST', roles, {
      body: Buffer.alloc(3 * 1024 * 1024, ' '),
    });
    assert.equal(answer.status, 413);
    assert.equal((await connection.request('GET', `${resources}/sites/site`)).status, 200);
    connection.close();
  });
});

suite('many requests', () => {
  /** Holds a place in the queue of requests by not sending the end of its body. */
  async function holdPlaces(count: number, callers = tokens): Promise<RawConnection[]> {
    return Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const connection = await RawConnection.open(target);
        const token = callers[index % callers.length];
        connection.send(
          `POST ${roles} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n`,
        );
        // The interim answer proves that the request is being worked on.
        assert.match(await connection.until(/\r\n\r\n/), /^HTTP\/1\.1 100 Continue/);
        return connection;
      }),
    );
  }

  test('more than are worked on at once get 429 and are told when to come back', async () => {
    const holders = await holdPlaces(limits.maxConcurrentRequests);
    const refused = await client.get(`${resources}/sites/site`);
    assert.equal(refused.status, 429);
    assert.equal(refused.headers['retry-after'], '1');
    assert.equal(refused.body.reason, 'TooManyRequests');
    // A place that is given up is free at once; what it sent was no object.
    holders[0]?.send('{}');
    assert.match((await holders[0]?.until(/400 Bad/)) ?? '', /HTTP\/1\.1 400 /);
    await othersAreServed();
    for (const holder of holders) holder.close();
  });

  test('one caller has a quarter of the places, and the others have theirs', async () => {
    const greedy = tokens[0] as string;
    const holders = await holdPlaces(limits.maxConcurrentRequests / 4, [greedy]);
    const again = new ApiClient({ ...target, token: greedy });
    assert.equal((await again.get(`${resources}/sites/site`)).status, 429);
    await othersAreServed();
    for (const holder of holders) holder.close();
    for (;;) {
      const { status } = await again.get(`${resources}/sites/site`);
      if (status === 200) break;
      assert.equal(status, 429);
    }
    again.close();
  });

  test('clients that vanish in the middle of a body give their place back', async () => {
    const holders = await holdPlaces(limits.maxConcurrentRequests);
    for (const holder of holders) holder.close();
    for (;;) {
      const { status } = await client.get(`${resources}/sites/site`);
      if (status === 200) break;
      assert.equal(status, 429);
    }
  });

  test('more watches than allowed get 429, of one caller and of all, but not the admin socket', async () => {
    const path = `${roles}?watch=true`;
    const callers = tokens.map((token) => new ApiClient({ ...target, token }));
    const open: WatchReader[] = [];
    for (const caller of callers) {
      for (let count = 0; count < limits.maxWatches / 4; count += 1)
        open.push(await caller.watch(path));
      await assert.rejects(caller.watch(path), (error: Refusal) => {
        assert.equal(error.answer.status, 429);
        assert.equal(error.answer.headers['retry-after'], '1');
        return true;
      });
    }
    await assert.rejects(
      client.watch(path),
      (error: Refusal) => error.answer.status === 429,
      'one that has no watch yet',
    );
    open.push(await admin.watch(path));
    await othersAreServed();
    open.shift()?.close();
    for (;;) {
      try {
        open.push(await client.watch(path));
        break;
      } catch (error) {
        if (!(error instanceof Refusal) || error.answer.status !== 429) throw error;
      }
    }
    for (const watch of open) watch.close();
    for (const caller of callers) caller.close();
  });
});

suite('watchers that do not read', () => {
  async function waitUntilNoWatcher(): Promise<void> {
    for (;;) {
      const text = await (await fetch(site.endpoints.metrics)).text();
      if (/^hansa_api_watchers\{resource="roles"\} 1$/m.test(text)) return;
    }
  }

  for (const protocol of ['HTTP/1.1', 'HTTP/2']) {
    test(`are cut off over ${protocol}, and others see every event`, async () => {
      const deaf = await RawConnection.open(target);
      const http2 = new Http2Client(target);
      if (protocol === 'HTTP/1.1') {
        deaf.send(`GET ${roles}?watch=true HTTP/1.1\r\nHost: a\r\n${authorization()}\r\n`);
        await deaf.until(/ADDED/);
        deaf.socket.pause();
      } else {
        const stream = http2.open('GET', `${roles}?watch=true`);
        stream.on('error', () => undefined);
        await once(stream, 'response');
        stream.pause();
      }
      const attentive = await client.watch(`${roles}?watch=true`);
      await admin.request('POST', roles, { body: role('loud') });
      await attentive.until(named('loud'));
      // 8 MiB may wait, and the kernel's buffers hold some more.
      for (let count = 1; count <= 80; count += 1) {
        const answer = await admin.request('PATCH', `${roles}/loud`, {
          headers: { 'content-type': 'application/merge-patch+json' },
          body: role('loud', { filler: `${count}`.padEnd(250_000, '.') }),
        });
        assert.equal(answer.status, 200);
        const event = await attentive.next();
        assert.match(event?.object.metadata.annotations?.['filler'] ?? '', RegExp(`^${count}\\.`));
      }
      await waitUntilNoWatcher();
      attentive.close();
      deaf.close();
      http2.close();
      await admin.request('DELETE', `${roles}/loud`);
    });
  }
});

suite('answers that nobody reads', () => {
  test('are cut off after a while, over HTTP/1.1 and HTTP/2', async () => {
    // More than the kernel's buffers hold.
    const names = Array.from({ length: 64 }, (_, index) => `bulky-${index}`);
    for (const name of names) {
      const body = role(name, { filler: '.'.repeat(250_000) });
      assert.equal((await admin.request('POST', roles, { body })).status, 201);
    }
    const deaf = await RawConnection.open(target);
    const http2 = new Http2Client(target);
    deaf.send(`GET ${roles} HTTP/1.1\r\nHost: a\r\n${authorization()}\r\n`);
    const [, length] = /content-length: (\d+)/i.exec(await deaf.until(/\r\n\r\n/)) ?? [];
    deaf.socket.pause();
    const stream = http2.open('GET', roles);
    stream.on('error', () => undefined);
    await once(stream, 'response');
    await othersAreServed();
    for (;;) {
      const text = await (await fetch(site.endpoints.metrics)).text();
      if (/^hansa_api_requests_in_flight 0$/m.test(text)) break;
    }
    deaf.socket.resume();
    assert.ok((await deaf.closed()).length < Number(length));
    let read = 0;
    stream.on('data', (chunk: Buffer) => {
      read += chunk.length;
    });
    if (!stream.destroyed) await once(stream, 'close');
    assert.ok(read < Number(length));
    http2.close();
    for (const name of names) await admin.request('DELETE', `${roles}/${name}`);
  });
});

suite('streams that are opened and thrown away', () => {
  test('cost the client its stream and nobody a place', async () => {
    const connection = new Http2Client(target);
    for (let round = 0; round < 20; round += 1) {
      const streams = Array.from({ length: 100 }, () => {
        const stream = connection.open('POST', roles, { 'content-type': 'application/json' });
        stream.on('error', () => undefined);
        stream.write('{');
        return stream;
      });
      await Promise.all(
        streams.map((stream) => {
          const closed = once(stream, 'close');
          stream.close(constants.NGHTTP2_CANCEL);
          return closed;
        }),
      );
      if (connection.session.destroyed) break;
    }
    connection.close();
    // Streams may still be on their way to the daemon: only when all are done nobody is refused any more.
    for (let served = 0; served < 20; ) {
      const { status } = await client.get(`${resources}/sites/site`);
      served = status === 200 ? served + 1 : 0;
      if (status !== 200) assert.equal(status, 429);
    }
    const text = await (await fetch(site.endpoints.metrics)).text();
    assert.match(text, /^hansa_api_requests_in_flight 0$/m);
  });
});

suite('refusals that are never read', () => {
  test('are 1,024 of one address, and cost those with a credential nothing', async () => {
    const parked = () => {
      // Without a window nothing of a body is ever sent to it.
      const session = connectHttp2(target.origin, {
        rejectUnauthorized: false,
        settings: { initialWindowSize: 0 },
      });
      session.on('error', () => undefined);
      const ask = (headers: Record<string, string> = {}): Promise<number> => {
        const stream = session.request({ ':path': roles, ...headers });
        stream.on('error', () => undefined).resume();
        return new Promise((resolve) => {
          stream.once('response', (head) => resolve(Number(head[':status'])));
          stream.once('close', () => resolve(stream.rstCode));
        });
      };
      return { session, ask };
    };
    const strangers = [parked(), parked()];
    const answers = await Promise.all(
      strangers.flatMap(({ ask }) => Array.from({ length: 700 }, () => ask())),
    );
    const refused = answers.filter((answer) => answer === constants.NGHTTP2_REFUSED_STREAM);
    assert.equal(refused.length, 1_400 - 1_024);
    const known = parked();
    for (let asked = 0; asked < 20; asked += 1) {
      assert.equal(await known.ask({ authorization: `Bearer ${target.token}` }), 200);
    }
    await othersAreServed();
    for (const { session } of [...strangers, known]) session.destroy();
  });
});

suite('a limit of connections', () => {
  test('closes those beyond it, and leaves the admin socket to its owner', async () => {
    const own = join(temporaryFolder(), 'crowded');
    // One address has a quarter of them.
    const crowded = await startDaemon(own, ['--limits-max-connections', '20']);
    const { hostname, port } = new URL(crowded.endpoints.api);
    const five = await Promise.all(
      Array.from({ length: 5 }, () =>
        RawConnection.open({ origin: crowded.endpoints.api, verify: false }),
      ),
    );
    const sixth = connect(Number(port), hostname);
    sixth.on('error', () => undefined).resume();
    await once(sixth, 'close');
    assert.equal((await adminClient(own).get(roles)).status, 200);
    for (const connection of five) connection.close();
    for (;;) {
      const again = await RawConnection.open({
        origin: crowded.endpoints.api,
        verify: false,
      }).catch(() => undefined);
      again?.close();
      if (again !== undefined) break;
    }
    assert.equal(await crowded.signal('SIGTERM'), 0);
  });
});

suite('a limit a caller', () => {
  test('refuses the caller that passes it, and no other', async () => {
    const own = join(temporaryFolder(), 'limited');
    const limited = await startDaemon(own, ['--limits-requests-per-second', '20']);
    const owner = adminClient(own);
    const caFile = join(own, 'ca.pem');
    const greedy = new ApiClient({
      origin: limited.endpoints.api,
      caFile,
      token: await createToken(owner, 'greedy', 'viewer'),
    });
    const modest = new ApiClient({
      origin: limited.endpoints.api,
      caFile,
      token: await createToken(owner, 'modest', 'viewer'),
    });
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => greedy.get(`${resources}/sites/site`)),
    );
    const refused = answers.filter(({ status }) => status === 429);
    assert.ok(refused.length > 0);
    assert.ok(refused.every(({ headers }) => headers['retry-after'] === '1'));
    assert.ok(answers.some(({ status }) => status === 200));
    assert.equal((await modest.get(`${resources}/sites/site`)).status, 200);
    greedy.close();
    modest.close();
    await limited.signal('SIGTERM');
  });
});
