// Real TLS servers that play broken and hostile API servers. Whatever they do, a review is unavailable and never
// denied, names the cluster, and reveals nothing of the token.

import assert from 'node:assert/strict';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { after, suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { forge } from '../../core/identity/x509/test-forge.ts';
import {
  clientOf,
  serve,
  serveBytes,
  stopServers,
  testLeaf,
  type TestServer,
} from '../../core/kube/test-api-server.ts';
import type { Verdict } from '../review/verdict.ts';
import { type ReviewScene, reviewScene, unchecked } from './test-scene.ts';
import {
  acceptingStatus,
  revokedText,
  type ReviewSpec,
  serviceAccountToken,
  specOf,
  tokenReview,
  userOf,
} from './test-tokens.ts';

after(stopServers);

type Answer = (spec: ReviewSpec, response: ServerResponse, request: IncomingMessage) => void;

/** Reads the review, then answers. */
function answering(answer: Answer): RequestListener {
  return (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      answer(specOf(Buffer.concat(chunks)), response, request);
    });
  };
}

const json =
  (status: number, bodyOf: (spec: ReviewSpec) => unknown, headers = {}): Answer =>
  (spec, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(bodyOf(spec)));
  };

const accepting = (change: (spec: ReviewSpec) => object = () => ({})): Answer =>
  json(201, (spec) => tokenReview(spec, { ...acceptingStatus(spec), ...change(spec) }));

const failure = (status: number): Answer =>
  json(status, () => ({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status }));

async function against(server: TestServer): Promise<ReviewScene> {
  const scene = reviewScene();
  scene.change({ client: clientOf(server, { clock: scene.clock }) });
  return scene;
}

async function review(scene: ReviewScene, name = 'app'): Promise<Verdict> {
  const token = serviceAccountToken(scene.clock.now(), { name });
  try {
    return await scene.reviewer.review(scene.cluster, { token, audiences: [] });
  } catch (error) {
    for (let at: unknown = error; at instanceof Error; at = at.cause) {
      assert.ok(!`${at.message}${at.stack}`.includes(token.slice(-20)));
    }
    throw error;
  }
}

const answers: [string, string, Answer][] = [
  ['answers 401', 'credential', failure(401)],
  ['answers 403', 'credential', failure(403)],
  ['answers 429', 'throttled', failure(429)],
  ['answers 500', 'unreachable', failure(500)],
  ['answers 503', 'unreachable', failure(503)],
  ['answers 404', 'answer', failure(404)],
  ['redirects', 'unreachable', json(307, () => ({}), { location: 'https://localhost:1/' })],
  ['answers 201 without a body', 'answer', (_, response) => response.writeHead(201).end()],
  ['answers 204', 'answer', (_, response) => response.writeHead(204).end()],
  ['sends HTML', 'answer', (_, response) => response.writeHead(200).end('<html>Sign in</html>')],
  ['sends another kind', 'answer', json(201, () => ({ kind: 'Status', apiVersion: 'v1' }))],
  [
    'hands out system:masters',
    'answer',
    accepting(() => ({ user: { ...userOf(), groups: ['system:masters'] } })),
  ],
  ['names another user', 'answer', accepting(() => ({ user: userOf('admin') }))],
  ['gives another uid', 'answer', accepting(() => ({ user: { ...userOf(), uid: 'other' } }))],
  [
    'echoes another token',
    'answer',
    json(201, (spec) => tokenReview({ token: 'other' }, acceptingStatus(spec))),
  ],
  ['adds an audience', 'answer', accepting(() => ({ audiences: ['admin'] }))],
  [
    'breaks off',
    'unreachable',
    (_, response) => {
      response.writeHead(201, { 'content-length': '5000' });
      response.write('{"kind":"TokenReview"', () => response.socket?.destroy());
    },
  ],
  ['hangs up', 'unreachable', (_, response) => response.socket?.destroy()],
  [
    'sends without an end',
    'answer',
    (_, response) => {
      response.writeHead(201);
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      };
      response.on('drain', more);
      more();
    },
  ],
  ['nests deeply', 'answer', (_, response) => response.writeHead(201).end('['.repeat(30_000))],
];

suite('an API server that', () => {
  for (const [name, reason, answer] of answers) {
    test(`${name} is not heard`, async () => {
      const scene = await against(await serve(answering(answer)));
      await assert.rejects(review(scene), unchecked(reason));
    });
  }

  test('does not listen is unreachable', async () => {
    const server = await serve(answering(accepting()));
    await server.stop();
    await assert.rejects(review(await against(server)), unchecked('unreachable'));
  });

  test('has a certificate of another authority is not asked', async () => {
    let requests = 0;
    const leaf = testLeaf(forge({ ca: true }));
    const server = await serve(() => requests++, { leaf });
    await assert.rejects(review(await against(server)), unchecked('unreachable'));
    assert.equal(requests, 0);
  });

  test('has a certificate for another name is not asked', async () => {
    let requests = 0;
    const scene = reviewScene();
    const server = await serve(() => requests++);
    const endpoint = { ...server.endpoint, tlsServerName: 'other.example' };
    scene.change({ client: clientOf({ endpoint }, { clock: scene.clock }) });
    await assert.rejects(review(scene), unchecked('unreachable'));
    assert.equal(requests, 0);
  });

  test('does not speak HTTP is not heard', async () => {
    const server = await serveBytes((socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'));
    await assert.rejects(review(await against(server)), unchecked('unreachable'));
  });

  test('does not answer is given up after five seconds', async () => {
    const asked = Promise.withResolvers<void>();
    const scene = await against(await serve(answering(() => asked.resolve())));
    const pending = assert.rejects(review(scene), unchecked('unreachable'));
    await asked.promise;
    await scene.clock.advance(5_000);
    await pending;
  });

  test('flaps denies nothing, and is used whenever it answers', async () => {
    let at = 0;
    const scene = await against(
      await serve(
        answering((...parts) => {
          if (at++ % 2 === 0) parts[1].socket?.destroy();
          else accepting()(...parts);
        }),
      ),
    );
    let acceptances = 0;
    for (let i = 0; i < 20; i++) {
      const verdict = await review(scene, `app${i}`).catch((error: unknown) => {
        assert.ok(error instanceof HansaError && error.code === 'HANSA_UNAVAILABLE');
        return undefined;
      });
      assert.notEqual(verdict?.authenticated, false);
      if (verdict !== undefined) acceptances++;
      await scene.clock.advance(500);
    }
    assert.ok(acceptances >= 9, String(acceptances));
  });

  test('closes idle connections costs no review', async () => {
    const used = new WeakSet<object>();
    const scene = await against(
      await serve(
        answering((spec, response, request) => {
          if (used.has(request.socket)) request.socket.destroy();
          else accepting()(spec, response, request);
          used.add(request.socket);
        }),
      ),
    );
    for (let i = 0; i < 5; i++) {
      assert.equal((await review(scene, `app${i}`)).authenticated, true);
    }
  });

  test('denies is passed on in its words', async () => {
    const server = await serve(
      answering(json(201, (spec) => tokenReview(spec, { error: revokedText }))),
    );
    assert.deepEqual(await review(await against(server)), {
      authenticated: false,
      error: revokedText,
    });
  });

  test('is dead changes nothing for other clusters', async () => {
    const dead = await serve(answering(accepting()));
    await dead.stop();
    const scene = await against(dead);
    const healthy = await serve(answering(accepting()));
    const other = scene.add({ name: 'app2', client: clientOf(healthy, { clock: scene.clock }) });
    for (let i = 0; i < 10; i++) {
      await assert.rejects(review(scene, `app${i}`), unchecked('unreachable'));
      const token = serviceAccountToken(scene.clock.now(), { name: `app${i}` });
      const verdict = await scene.reviewer.review(other, { token, audiences: [] });
      assert.equal(verdict.authenticated, true);
    }
  });
});
