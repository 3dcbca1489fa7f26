// Routes that declare `readsBody`: bodies that come with the headers or later, callers that go away, and
// requests that share a connection.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, suite, test } from 'node:test';
import type { Caller } from '../../core/access/identity.ts';
import { DispatcherScene, guest, statusAndBody, turns } from './test-dispatcher-scene.ts';

const json = 'content-type: application/json';
const scene = new DispatcherScene();
before(() => scene.start());
after(() => scene.stop());

suite('a route whose body the site reads', () => {
  const asAda = ['Host: a', 'Authorization: Bearer ada'];

  test('gets a body that came with the headers, after one check', async () => {
    scene.reset();
    assert.deepEqual(await scene.send('/things/whole', asAda), [200, 'ada hello']);
    assert.deepEqual(scene.rights, [{ user: 'ada', name: 'a' }]);
    assert.deepEqual(await scene.send('/things/whole', asAda, ''), [200, 'ada ']);
  });

  test('gets a body that came later, after a second check', async () => {
    scene.reset();
    const answer = await sendInParts(['Content-Length: 10'], ['hello', 'world']);
    assert.deepEqual(answer, [200, 'ada helloworld']);
    assert.deepEqual(scene.rights.length, 2);
  });

  test('gets a body in chunks', async () => {
    scene.reset();
    const parts = ['5\r\nhello\r\n', '5\r\nworld\r\n0\r\n\r\n'];
    assert.deepEqual(await sendInParts(['Transfer-Encoding: chunked'], parts), [
      200,
      'ada helloworld',
    ]);
  });

  test('refuses a body that is too long, announced or not', async () => {
    scene.reset();
    assert.equal((await scene.send('/things/whole', asAda, 'x'.repeat(101)))[0], 413);
    const chunk = `65\r\n${'x'.repeat(101)}\r\n0\r\n\r\n`;
    assert.equal((await sendInParts(['Transfer-Encoding: chunked'], [chunk]))[0], 413);
  });

  test('answers in order where requests come at once, and refuses what its handler refuses', async () => {
    scene.reset();
    const head = (more: string, body: string) =>
      `POST /things/whole HTTP/1.1\r\n${asAda.join('\r\n')}\r\ncontent-type: application/json\r\n${more}content-length: ${body.length}\r\n\r\n${body}`;
    const text = await scene.converse([
      head('', 'one') + head('x-fail: yes\r\n', 'two') + head('connection: close\r\n', 'three'),
    ]);
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => match[1]);
    assert.deepEqual(statuses, ['200', '400', '200']);
    assert.match(text, /ada one[^]*as you wish[^]*ada three/);
  });

  test('lets other work run where requests that come at once take long', async () => {
    const head = (more: string) =>
      `POST /things/whole HTTP/1.1\r\n${asAda.join('\r\n')}\r\ncontent-type: application/json\r\n${more}content-length: 2\r\n\r\nok`;
    const requests = head('') + head('') + head('connection: close\r\n');
    const eventsOf = async (handlerMs: number): Promise<string> => {
      scene.reset();
      const events: string[] = [];
      scene.onHandle = () => {
        scene.monotonicMs += handlerMs;
        events.push('handled');
        setImmediate(() => events.push('other work'));
      };
      const text = await scene.converse([requests]);
      assert.equal(text.match(/200 OK/g)?.length, 3);
      return events.slice(0, 3).join(', ');
    };
    assert.equal(await eventsOf(0), 'handled, handled, handled');
    assert.equal(await eventsOf(10), 'handled, other work, handled');
  });

  test('frees the place of a request that ends before its body', async () => {
    scene.reset();
    const ended = Array.from({ length: 20 }, () => {
      const socket = scene.connect();
      socket.on('error', () => undefined);
      socket.write(
        `POST /things/whole HTTP/1.1\r\n${asAda.join('\r\n')}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\nabc`,
        () => socket.destroy(),
      );
      return once(socket, 'close');
    });
    await Promise.all(ended);
    // A quarter of forty places is ten: twenty that stay taken would refuse this one.
    let status = 429;
    while (status === 429) [status] = await scene.send('/things/whole', asAda);
    assert.equal(status, 200);
  });

  test('accepts callers of its authenticator, at once or later', async () => {
    scene.reset();
    scene.guests.set('now', () => guest);
    scene.guests.set('later', async () => guest);
    scene.guests.set('never', async () => undefined);
    const ask = (credential: string) =>
      scene.send('/things/whole', ['Host: a', `X-Guest: ${credential}`]);
    assert.deepEqual(await ask('now'), [200, 'guest hello']);
    assert.deepEqual(await ask('later'), [200, 'guest hello']);
    assert.equal(scene.failures, 0);
    assert.equal((await ask('never'))[0], 401);
    assert.equal(scene.failures, 1);
  });

  const whole = (more: string, body = 'ok', host = 'a') =>
    `POST /things/whole HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ada\r\ncontent-type: application/json\r\n${more}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const last = 'connection: close\r\n';
  const statusesIn = (text: string) =>
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));

  test('keeps the connection where it refuses a request that came with its body', async () => {
    scene.reset();
    const text = await scene.converse([whole('', 'ok', 'forbidden'), whole(last)]);
    assert.deepEqual(statusesIn(text), [403, 200]);
    assert.deepEqual(scene.denials, ['HANSA_FORBIDDEN']);
  });

  test('ends the connection where it refuses a request before its body', async () => {
    scene.reset();
    const head = whole('', 'x'.repeat(50), 'forbidden').slice(0, -50);
    const text = await scene.converse([head, whole('')]);
    assert.deepEqual(statusesIn(text), [403], 'a body is never read as the next request');
    assert.deepEqual(scene.denials, ['HANSA_FORBIDDEN']);
  });

  test('answers a defect of its handler with 500, and serves the next request', async () => {
    scene.reset();
    let left = 1;
    scene.onHandle = () => {
      if (left-- > 0) throw new Error('a secret text');
    };
    const text = await scene.converse([whole('') + whole(last)]);
    assert.deepEqual(statusesIn(text), [500, 200]);
    assert.doesNotMatch(text, /secret/);
  });

  test('asks for the body that a client announces with Expect', async () => {
    scene.reset();
    const text = await scene.converse([
      whole(`${last}expect: 100-continue\r\n`, 'hello').slice(0, -5),
      'hello',
    ]);
    assert.deepEqual(statusesIn(text), [100, 200]);
    assert.match(text, /ada hello$/);
  });

  test('refuses a request with two lengths, and what follows it', async () => {
    for (const second of ['transfer-encoding: chunked\r\n', 'content-length: 9\r\n']) {
      scene.reset();
      const text = await scene.converse([whole(second) + whole(last)]);
      assert.deepEqual(statusesIn(text), [400], second);
      assert.deepEqual(scene.rights, [], 'the parser refuses it');
    }
  });

  test('counts the bytes of an answer, not its characters', async () => {
    scene.reset();
    for (const body of ['Lübeck', '€ 5', '🦭', 'é']) {
      const text = await scene.converse([whole('', body) + whole(last)]);
      assert.deepEqual(
        statusesIn(text),
        [200, 200],
        'the second answer begins where the first ends',
      );
      assert.ok(text.includes(`ada ${body}HTTP/1.1`), body);
    }
  });

  for (const path of ['/things/whole', '/things/here']) {
    test(`frees the places of callers of ${path} that leave while it authenticates them`, async () => {
      scene.reset();
      scene.guests.set('g', () => guest);
      const handled: string[] = [];
      scene.onHandle = () => void handled.push(path);
      const complete = `POST ${path} HTTP/1.1\r\nHost: a\r\nX-Guest: slow\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\nok`;
      // One caller gets a quarter of the places.
      for (let round = 0; round < 3; round++) {
        const gate = Promise.withResolvers<Caller>();
        scene.guests.set('slow', () => gate.promise);
        const asked = scene.shown.length + DispatcherScene.places / 4;
        const sockets = Array.from({ length: DispatcherScene.places / 4 }, () => {
          const socket = scene.connect();
          socket.on('error', () => undefined);
          socket.write(complete);
          return socket;
        });
        while (scene.shown.length < asked) await turns();
        for (const socket of sockets) socket.destroy();
        await Promise.all(sockets.map((socket) => once(socket, 'close')));
        await turns();
        gate.resolve(guest);
        await turns();
      }
      if (path === '/things/whole') assert.deepEqual(handled, [], 'there is no body to handle');
      assert.equal((await scene.send(path, ['Host: a', 'X-Guest: g']))[0], 200);
    });
  }

  /** Sends the headers, and each part of the body after the site has seen what came before. */
  function sendInParts(
    lines: readonly string[],
    parts: readonly string[],
  ): Promise<[number, string]> {
    const head = ['POST /things/whole HTTP/1.1', ...asAda, json, ...lines, 'connection: close'];
    return scene.converse([`${head.join('\r\n')}\r\n\r\n`, ...parts]).then(statusAndBody);
  }
});
