// In mode hybrid, one question to the API server says for the lag whether a token is alive, for all audiences. No
// caller can make the site ask more often.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { Acceptance } from '../review/verdict.ts';
import { ask, asking, type ReviewScene, reviewScene, tokenOf } from './test-scene.ts';
import { issuer, jsonResponse, revokedText, specOf, tokenReview, userOf } from './test-tokens.ts';

/** As it comes from the cache. */
const alive = ({ clock }: ReviewScene, audiences: readonly string[]): StoredAcceptance =>
  StoredAcceptance.of({
    authenticated: true,
    user: userOf(),
    audiences,
    expiresAtMs: clock.now() + 3_600_000,
  });

suite('in mode hybrid', () => {
  test('a denial counts for a second, for all audiences', async () => {
    const scene = reviewScene();
    const { clock, server } = scene;
    const token = tokenOf(scene, { audiences: [issuer, 'a', 'b'] });
    const revoked = { authenticated: false, error: revokedText };
    server.revoked.add(token);
    for (const audiences of [[], ['a'], ['b', 'x'], ['a', 'b']]) {
      assert.deepEqual(await ask(scene, token, audiences), revoked);
    }
    assert.equal(server.requests.length, 1);
    // A lookup that failed in the API server ends soon.
    server.revoked.clear();
    await clock.advance(999);
    assert.deepEqual(ask(scene, token), revoked);
    await clock.advance(1);
    assert.equal((await ask(scene, token)).authenticated, true);
  });

  test('one question says for all audiences that a token is alive', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene, { audiences: ['a', 'b', issuer] });
    await ask(scene, token, ['b', 'a']);
    for (let i = 0; i < 100; i++) {
      const asked = [`other-${i}`, 'a', 'b', 'a'];
      assert.deepEqual(ask(scene, token, asked), alive(scene, ['a', 'b', 'a']));
    }
    assert.deepEqual(ask(scene, token), alive(scene, [issuer]));
    assert.deepEqual(ask(scene, token, ['x']), {
      authenticated: false,
      error: `[invalid bearer token, token audiences ["a" "b" "${issuer}"] is invalid for the target audiences ["x"]]`,
    });
    assert.equal(scene.server.requests.length, 1);
  });

  test('questions about other audiences wait for the one in flight', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene, { audiences: ['a', 'b'] });
    const questions = Array.from({ length: 100 }, (_, i) => [i % 2 === 0 ? 'a' : 'b', `x-${i}`]);
    const verdicts = await Promise.all(questions.map((asked) => asking(scene, token, asked)));
    for (const [index, verdict] of verdicts.entries()) {
      assert.ok(verdict.authenticated);
      assert.deepEqual(verdict.audiences, questions[index]?.slice(0, 1));
    }
    assert.equal(scene.server.requests.length, 1);
  });

  test('a revoked token is denied for every audience after the lag', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene, { audiences: ['a', 'b'] });
    await ask(scene, token, ['a']);
    scene.server.revoked.add(token);
    await scene.clock.advance(10_000);
    for (const audience of ['b', 'a']) {
      assert.equal((await ask(scene, token, [audience])).authenticated, false);
    }
    assert.equal(scene.server.requests.length, 2);
  });

  test('the same token in other words is asked about once', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene);
    for (let i = 0; i < 50; i++) {
      for (const text of [
        `${token} word ${i}`,
        `${token}${'\n'.repeat(i)}`,
        `${'\t'.repeat(i)}${token}`,
      ]) {
        assert.equal((await ask(scene, text)).authenticated, true);
      }
    }
    assert.deepEqual(
      scene.server.requests.map(({ body }) => specOf(body as Buffer).token),
      [token],
    );
    assert.match(scene.metrics.expose(), /^hansa_verdict_cache_entries 1$/m);
  });

  test('many tokens that no key signed are asked about never', async () => {
    const scene = reviewScene();
    for (let i = 0; i < 100; i++) {
      const [head = '', , signature = ''] = tokenOf(scene, { name: `app${i}` }).split('.');
      const claims = tokenOf(scene, { name: `other${i}` }).split('.')[1] ?? '';
      const verdict = await ask(scene, `${head}.${claims}.${signature}`, [issuer, `x-${i}`]);
      assert.equal(verdict.authenticated, false);
    }
    assert.equal(scene.server.requests.length, 0);
  });

  test('a token without an audience is for those that the API server names', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene, { audiences: [] });
    scene.server.behave = (spec) =>
      jsonResponse(
        201,
        tokenReview(spec, { authenticated: true, user: userOf(), audiences: [issuer, 'api'] }),
      );
    const first = (await ask(scene, token, [issuer])) as Acceptance;
    assert.deepEqual(first.audiences, [issuer]);
    assert.deepEqual((ask(scene, token) as Acceptance).audiences, [issuer, 'api']);
    assert.equal(scene.server.requests.length, 1);
    assert.equal(specOf(scene.server.requests[0]?.body as Buffer).audiences, undefined);
  });
});
