// Reviews while an API server cannot be asked, or answers something that is not accepted. The API server is in
// the test itself; hostile-api-servers.test.ts has real ones.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import { tokenHash } from '../review/token-hash.ts';
import { ask, asking, type ReviewScene, reviewScene, tokenOf, unchecked } from './test-scene.ts';
import { acceptingStatus, jsonResponse, tokenReview, userOf } from './test-tokens.ts';

suite('an API server that cannot be asked', () => {
  const failures: [string, string, RegExp, (scene: ReviewScene) => void][] = [
    [
      'is down',
      'unreachable',
      /does not answer\. Run `hansa cluster check app1`/,
      ({ server }) => server.goDown(),
    ],
    [
      'has another CA',
      'unreachable',
      /does not trust the certificate/,
      ({ server }) => {
        server.behave = () => {
          throw new HansaError('HANSA_CERTIFICATE_INVALID', 'unknown authority');
        };
      },
    ],
    [
      'needs a credential that this site lacks',
      'credential',
      /has no credential/,
      ({ server }) => {
        server.behave = () => {
          throw new HansaError('HANSA_UNAVAILABLE', 'no credential');
        };
      },
    ],
    [
      'answers 401',
      'credential',
      /does not accept the credential.*hansa cluster credential set app1/,
      answering(401),
    ],
    ['answers 403', 'credential', /RBAC again: `hansa cluster add/, answering(403)],
    ['answers 429', 'throttled', /too often.*7 seconds/, answering(429, { 'retry-after': '7' })],
    ['answers 500', 'unreachable', /HTTP 500/, answering(500)],
    ['answers 503', 'unreachable', /HTTP 503/, answering(503)],
    ['answers 404', 'answer', /HTTP 404/, answering(404)],
    ['redirects', 'answer', /HTTP 302/, answering(302, { location: 'https://evil.example' })],
    [
      'sends too much',
      'answer',
      /too large/,
      ({ server }) => {
        server.behave = () => {
          throw new HansaError('HANSA_TOO_LARGE', 'too large');
        };
      },
    ],
    [
      'hands out system:masters',
      'answer',
      /other groups than the claims/,
      ({ server }) => {
        server.behave = (spec) => {
          const status = acceptingStatus(spec);
          const user = { ...status.user, groups: ['system:masters'] };
          return jsonResponse(201, tokenReview(spec, { ...status, user }));
        };
      },
    ],
  ];
  for (const [name, reason, message, prepare] of failures) {
    test(`${name}: the review is unavailable, never denied`, async () => {
      const scene = reviewScene();
      prepare(scene);
      const token = tokenOf(scene);
      await assert.rejects(async () => ask(scene, token), unchecked(reason, message));
      await assert.rejects(
        async () => ask(scene, token),
        ({ message: text, cause }: Error) => !`${text} ${String(cause)}`.includes(token),
      );
    });
  }

  function answering(status: number, headers = {}): (scene: ReviewScene) => void {
    return ({ server }) => {
      server.behave = () => jsonResponse(status, { kind: 'Status', apiVersion: 'v1' }, headers);
    };
  }

  test('is not asked for a while, and then again', async () => {
    const scene = reviewScene();
    const { clock, server } = scene;
    server.goDown();
    for (let i = 0; i < 100; i++) {
      await assert.rejects(async () => ask(scene, tokenOf(scene, { name: `app${i}` })));
    }
    assert.equal(server.requests.length, 3);
    server.behave = undefined;
    await clock.advance(500);
    assert.equal((await ask(scene, tokenOf(scene))).authenticated, true);
  });

  test('with 500 for one token is still asked about others', async () => {
    const scene = reviewScene({ maxRevocationLagMs: 0 });
    const { server } = scene;
    const odd = tokenOf(scene, { name: 'odd' });
    server.behave = (spec) => (spec.token === odd ? jsonResponse(500, {}) : server.answer(spec));
    for (let i = 0; i < 10; i++) {
      await assert.rejects(async () => ask(scene, odd));
    }
    assert.equal((await ask(scene, tokenOf(scene))).authenticated, true);
  });

  test('and throttles gets no request until its time has come', async () => {
    const scene = reviewScene();
    const { clock, server } = scene;
    answering(429, { 'retry-after': '7' })(scene);
    await assert.rejects(async () => ask(scene, tokenOf(scene)));
    server.behave = undefined;
    await clock.advance(6_999);
    await assert.rejects(async () => ask(scene, tokenOf(scene)), { reason: 'throttled' });
    assert.equal(server.requests.length, 1);
    await clock.advance(1);
    assert.equal((await ask(scene, tokenOf(scene))).authenticated, true);
  });

  test('leaves audit records of answers that are not accepted, without the token', async () => {
    const scene = reviewScene();
    scene.server.behave = (spec) =>
      jsonResponse(201, tokenReview(spec, { ...acceptingStatus(spec), user: userOf('other') }));
    const token = tokenOf(scene);
    await assert.rejects(async () => ask(scene, token));
    assert.deepEqual(scene.audited, [
      {
        actor: { user: 'api-server:app1', groups: [], via: 'tokenreview' },
        verb: 'cluster.refuse',
        kind: 'Cluster',
        name: 'app1',
        uid: 'uid-1',
        outcome: 'deny',
        code: 'HANSA_UNAVAILABLE',
        reason: 'it names another user than the claims of the token',
        tokenHash: tokenHash(token),
      },
    ]);
  });

  test('and is slow makes at most 64 requests at once and 1024 wait', async () => {
    const scene = reviewScene();
    const { clock, server } = scene;
    const never = Promise.withResolvers<never>();
    server.behave = () => never.promise;
    const reviews = Array.from({ length: 64 + 1024 }, (_, i) =>
      Promise.resolve(ask(scene, tokenOf(scene, { name: `app${i}` }))).catch(
        (error: unknown) => error,
      ),
    );
    await clock.advance(0);
    assert.equal(server.requests.length, 64);
    await assert.rejects(async () => ask(scene, tokenOf(scene)), unchecked('busy', /too slow/));
    never.reject(new HansaError('HANSA_UNREACHABLE', 'no answer in time'));
    for (const outcome of await Promise.all(reviews)) assert.ok(outcome instanceof HansaError);
    // Those that waited were not sent to an API server that does not answer.
    assert.ok(server.requests.length < 70);
  });

  test('tells the client how long a request may take, waiting included', async () => {
    const scene = reviewScene();
    const { clock, server } = scene;
    const first = Promise.withResolvers<void>();
    server.behave = async (spec) => {
      if (server.requests.length <= 64) await first.promise;
      return server.answer(spec);
    };
    const reviews = Array.from({ length: 65 }, (_, i) =>
      asking(scene, tokenOf(scene, { name: `app${i}` })),
    );
    await clock.advance(1_000);
    first.resolve();
    await Promise.all(reviews);
    assert.equal(server.requests[0]?.timeoutMs, 5_000);
    assert.equal(server.requests[64]?.timeoutMs, 4_000);
  });
});

suite('in mode tokenreview', () => {
  test('every question is forwarded', async () => {
    const scene = reviewScene({ mode: 'tokenreview' });
    const token = tokenOf(scene);
    await ask(scene, token);
    await scene.clock.advance(1);
    await ask(scene, token);
    assert.equal(scene.server.requests.length, 2);
  });

  test('an outage means unavailable, however young the last acceptance is', async () => {
    const scene = reviewScene({ mode: 'tokenreview' });
    const token = tokenOf(scene);
    await ask(scene, token);
    scene.server.goDown();
    await assert.rejects(async () => ask(scene, token), { reason: 'unreachable' });
  });

  test('allowUntilLag accepts a token in an outage until the lag of its own check', async () => {
    const scene = reviewScene({ mode: 'tokenreview', onUnreachable: 'allowUntilLag' });
    const { clock, server } = scene;
    const token = tokenOf(scene);
    await ask(scene, token);
    server.goDown();
    await clock.advance(9_999);
    assert.equal((await ask(scene, token)).authenticated, true);
    await assert.rejects(async () => ask(scene, tokenOf(scene, { name: 'other' })), {
      reason: 'unreachable',
    });
    await clock.advance(1);
    await assert.rejects(async () => ask(scene, token), { reason: 'unreachable' });
  });

  test('allowUntilLag does not bring back a token that was denied since', async () => {
    const scene = reviewScene({ mode: 'tokenreview', onUnreachable: 'allowUntilLag' });
    const token = tokenOf(scene);
    await ask(scene, token);
    scene.server.revoked.add(token);
    await scene.clock.advance(1);
    assert.equal((await ask(scene, token)).authenticated, false);
    scene.server.goDown();
    await scene.clock.advance(1);
    await assert.rejects(async () => ask(scene, token), { reason: 'unreachable' });
  });

  for (const status of [401, 403, 404]) {
    test(`allowUntilLag is not for an API server that answers ${status}`, async () => {
      const scene = reviewScene({ mode: 'tokenreview', onUnreachable: 'allowUntilLag' });
      const token = tokenOf(scene);
      await ask(scene, token);
      await scene.clock.advance(1);
      scene.server.behave = () => jsonResponse(status, {});
      await assert.rejects(async () => ask(scene, token), { code: 'HANSA_UNAVAILABLE' });
    });
  }
});
