import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import type { KeySet, VerificationKey } from '../keys/cluster-keys.ts';
import { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { Acceptance, Verdict } from '../review/verdict.ts';
import { ask, asking, reviewScene, tokenOf, unchecked } from './test-scene.ts';
import {
  foreignKey,
  issuer,
  jsonResponse,
  keySet,
  revokedText,
  specOf,
  userOf,
} from './test-tokens.ts';

const accepted = (expiresAtMs: number): Verdict => ({
  authenticated: true,
  user: userOf(),
  audiences: [issuer],
  expiresAtMs,
});

/** As it comes from the cache, and only from there. */
const stored = (verdict: Verdict | Promise<Verdict>): StoredAcceptance =>
  StoredAcceptance.of(verdict as Acceptance);

suite('in mode jwks', () => {
  test('the verdict is there at once, and no API server is asked', () => {
    const scene = reviewScene({ mode: 'jwks' });
    const token = tokenOf(scene);
    assert.deepEqual(ask(scene, token), accepted(scene.clock.now() + 3_600_000));
    assert.equal(scene.server.requests.length, 0);
  });

  test('a repeated token is answered from the cache until it expires', async () => {
    const scene = reviewScene({ mode: 'jwks' });
    const token = tokenOf(scene);
    const first = ask(scene, token);
    await scene.clock.advance(3_599_000);
    assert.deepEqual(ask(scene, token), stored(first));
    // kube-apiserver allows one minute of clock skew.
    await scene.clock.advance(1000 + 61_000);
    assert.deepEqual(ask(scene, token), {
      authenticated: false,
      error: '[invalid bearer token, service account token has expired]',
    });
  });

  test('a removed key ends the cached verdicts at once', async () => {
    const scene = reviewScene({ mode: 'jwks' });
    const token = tokenOf(scene);
    ask(scene, token);
    scene.keys.current = keySet(scene.clock.now(), foreignKey, 'v2');
    const verdict = await ask(scene, token);
    assert.equal(verdict.authenticated, false);
  });

  test('keys that were fetched again and are the same end nothing', () => {
    const scene = reviewScene({ mode: 'jwks' });
    const token = tokenOf(scene);
    const first = ask(scene, token);
    scene.keys.current = keySet(scene.clock.now());
    assert.deepEqual(ask(scene, token), stored(first));
  });

  test('a token for another audience is denied although it is cached for its own', () => {
    const scene = reviewScene({ mode: 'jwks' });
    const token = tokenOf(scene, { audiences: ['a'] });
    assert.equal((ask(scene, token, ['a']) as Verdict).authenticated, true);
    assert.equal((ask(scene, token) as Verdict).authenticated, false);
    assert.equal((ask(scene, token, ['b']) as Verdict).authenticated, false);
    assert.equal((ask(scene, `${token}\0["a"]`) as Verdict).authenticated, false);
  });

  test('audiences come in the order of the question, from the cache too', () => {
    const scene = reviewScene({ mode: 'jwks' });
    const token = tokenOf(scene, { audiences: ['a', 'b'] });
    for (const asked of [
      ['a', 'b'],
      ['b', 'a'],
      ['b', 'x', 'a'],
      ['a', 'x', 'b'],
      ['b', 'b', 'a'],
    ]) {
      const verdict = ask(scene, token, asked) as Verdict;
      assert.ok(verdict.authenticated);
      assert.deepEqual(
        verdict.audiences,
        asked.filter((audience) => audience !== 'x'),
      );
    }
  });
});

suite('keys', () => {
  test('are fetched for a token with an unknown key', async () => {
    const scene = reviewScene({ mode: 'jwks' });
    scene.keys.refresh = async () => {
      scene.keys.current = keySet(scene.clock.now(), foreignKey, 'v2');
      return scene.keys.current;
    };
    const verdict = await ask(scene, tokenOf(scene, { key: foreignKey }));
    assert.equal(verdict.authenticated, true);
  });

  test('that are fresh and do not contain the key deny the token, and nothing is forwarded', async () => {
    const scene = reviewScene();
    assert.deepEqual(await ask(scene, tokenOf(scene, { key: foreignKey })), {
      authenticated: false,
      error: '[invalid bearer token, invalid signature, no keys found]',
    });
    assert.equal(scene.keys.refreshed, 1);
    assert.equal(scene.server.requests.length, 0);
  });

  test('that are old and do not contain the key decide nothing', async () => {
    const scene = reviewScene();
    await scene.clock.advance(30_001);
    const token = tokenOf(scene, { key: foreignKey });
    await assert.rejects(
      async () => ask(scene, token),
      unchecked('keys', /^Cannot review a token of cluster app1: .*does not know the key/),
    );
    assert.equal(scene.server.requests.length, 0);
  });

  test('that cannot be renewed do not deny a token with another key', async () => {
    const scene = reviewScene();
    scene.keys.refresh = async () => {
      throw new HansaError('HANSA_UNAVAILABLE', 'the last fetch failed');
    };
    await assert.rejects(
      async () => ask(scene, tokenOf(scene, { key: foreignKey })),
      unchecked('keys', /does not know the key/),
    );
    assert.equal((await ask(scene, tokenOf(scene))).authenticated, true);
  });

  /** The same keys, of which the cluster proved none. */
  const unproven = (nowMs: number): KeySet => {
    const set = keySet(nowMs);
    const without = ({ keyId, publicKey }: VerificationKey): VerificationKey => ({
      keyId,
      publicKey,
    });
    return { ...set, keys: set.keys.map(without), for: (id) => set.for(id).map(without) };
  };

  for (const mode of ['hybrid', 'tokenreview'] as const) {
    test(`that are not proven send no token to the API server, in mode ${mode}`, async () => {
      const scene = reviewScene({ mode });
      scene.keys.current = unproven(scene.clock.now());
      await assert.rejects(
        async () => ask(scene, tokenOf(scene)),
        unchecked('keys', /has not proved that it signs with the key of the token/),
      );
      // The cluster may sign with the key since now.
      assert.equal(scene.keys.refreshed, 1);
      assert.equal(scene.server.requests.length, 0);
      scene.keys.refresh = async () => {
        scene.keys.current = keySet(scene.clock.now());
        return scene.keys.current;
      };
      assert.equal((await ask(scene, tokenOf(scene))).authenticated, true);
    });
  }

  test('that are not proven decide where no token is sent, or the operator vouches for them', async () => {
    const byKeys = reviewScene({ mode: 'jwks' });
    byKeys.keys.current = unproven(byKeys.clock.now());
    assert.equal((await ask(byKeys, tokenOf(byKeys))).authenticated, true);
    const vouched = reviewScene({ sharesKeys: true });
    vouched.keys.current = unproven(vouched.clock.now());
    assert.equal((await ask(vouched, tokenOf(vouched))).authenticated, true);
  });

  test('that cannot be fetched decide nothing', async () => {
    const scene = reviewScene();
    scene.keys.current = undefined;
    scene.keys.refresh = async () => {
      throw new HansaError('HANSA_UNAVAILABLE', 'no keys');
    };
    await assert.rejects(
      async () => ask(scene, tokenOf(scene)),
      unchecked('keys', /does not have its keys/),
    );
  });

  for (const mode of ['jwks', 'hybrid', 'tokenreview'] as const) {
    test(`that did not sign the token deny it in mode ${mode}, and nothing is forwarded`, () => {
      const scene = reviewScene({ mode });
      const parts = tokenOf(scene).split('.');
      const other = tokenOf(scene, { name: 'other' }).split('.');
      const verdict = ask(scene, [parts[0], other[1], parts[2]].join('.')) as Verdict;
      assert.equal(verdict.authenticated, false);
      assert.ok(!verdict.authenticated && verdict.error !== undefined);
      assert.equal(scene.server.requests.length, 0);
    });

    test(`are not needed to deny garbage in mode ${mode}`, () => {
      const scene = reviewScene({ mode });
      for (const token of ['garbage', 'a.b.c', '{}', '..', 'x'.repeat(100_000)]) {
        assert.equal((ask(scene, token) as Verdict).authenticated, false);
      }
      assert.equal(scene.server.requests.length, 0);
      assert.equal(scene.keys.refreshed, 0);
    });
  }
});

suite('the signature of a token', () => {
  for (const mode of ['jwks', 'hybrid', 'tokenreview'] as const) {
    test(`is verified once in mode ${mode}, until the keys change`, async () => {
      const scene = reviewScene({ mode, maxRevocationLagMs: 0 });
      const token = tokenOf(scene);
      let verified = 0;
      const use = (version: string): void => {
        const set = keySet(scene.clock.now(), undefined, version);
        const counting = (keyId: string | undefined) => {
          verified++;
          return set.for(keyId);
        };
        scene.keys.current = { ...set, for: counting };
      };
      for (const version of ['v1', 'v1', 'v2']) {
        use(version);
        for (let i = 0; i < 3; i++) {
          assert.equal((await ask(scene, token)).authenticated, true);
          await scene.clock.advance(1);
        }
      }
      assert.equal(verified, 2);
    });
  }

  test('is forgotten where the API server denied the token, in mode tokenreview', async () => {
    const scene = reviewScene({ mode: 'tokenreview' });
    const token = tokenOf(scene);
    scene.server.revoked.add(token);
    await ask(scene, token);
    assert.match(scene.metrics.expose(), /^hansa_verdict_cache_entries 0$/m);
  });
});

suite('in mode hybrid', () => {
  for (const [mode, spec] of [
    ['hybrid', { audiences: ['a'] }],
    ['tokenreview', { audiences: ['x', 'a'] }],
  ] as const) {
    test(`the API server gets ${mode === 'hybrid' ? 'the audiences that the token has' : 'the question as it was asked'}, in mode ${mode}`, async () => {
      const scene = reviewScene({ mode });
      const token = tokenOf(scene, { audiences: [issuer, 'a'] });
      await ask(scene, token, ['x', 'a']);
      assert.deepEqual(
        scene.server.requests.map(({ method, path, body, contentType }) => ({
          method,
          path,
          contentType,
          spec: specOf(body as Buffer),
        })),
        [
          {
            method: 'POST',
            path: '/apis/authentication.k8s.io/v1/tokenreviews',
            contentType: 'application/vnd.kubernetes.protobuf',
            spec: { token, ...spec },
          },
        ],
      );
    });
  }

  test('an API server that reads no protobuf gets JSON, from then on without asking again', async () => {
    const scene = reviewScene();
    const { server } = scene;
    server.behave = (spec, { contentType }) =>
      contentType === undefined ? server.answer(spec) : jsonResponse(415, {});
    const names = ['a', 'b', 'c'];
    const review = (name: string) => asking(scene, tokenOf(scene, { name }));
    const together = await Promise.all(names.map(review));
    assert.ok(together.every(({ authenticated }) => authenticated));
    assert.equal(server.requests.length, 6);
    const token = tokenOf(scene, { name: 'd' });
    assert.equal((await asking(scene, token)).authenticated, true);
    assert.deepEqual(server.requests.at(-1)?.body, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences: [issuer] },
    });
    assert.equal(server.requests.length, 7);
  });

  test('an API server that reads neither protobuf nor JSON is asked twice and not heard', async () => {
    const scene = reviewScene();
    scene.server.behave = () => jsonResponse(415, {});
    await assert.rejects(asking(scene, tokenOf(scene)), unchecked('answer'));
    assert.equal(scene.server.requests.length, 2);
  });

  test('an acceptance is used again for the lag, from when the check began', async () => {
    const scene = reviewScene();
    const { clock, server } = scene;
    const token = tokenOf(scene);
    const answer = Promise.withResolvers<void>();
    server.behave = async (spec) => {
      await answer.promise;
      return server.answer(spec);
    };
    const first = ask(scene, token);
    await clock.advance(4_000);
    answer.resolve();
    assert.deepEqual(await first, stored(accepted(clock.now() + 3_596_000)));
    server.revoked.add(token);
    await clock.advance(5_999);
    assert.equal((ask(scene, token) as Verdict).authenticated, true);
    assert.equal(server.requests.length, 1);
    await clock.advance(1);
    assert.deepEqual(await ask(scene, token), { authenticated: false, error: revokedText });
  });

  test('claims that deny need no API server', () => {
    const scene = reviewScene();
    scene.server.goDown();
    const verdict = ask(scene, tokenOf(scene, { audiences: ['x'] })) as Verdict;
    assert.equal(verdict.authenticated, false);
    assert.equal(scene.server.requests.length, 0);
  });

  test('a removed key ends cached acceptances', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene);
    await ask(scene, token);
    scene.keys.current = keySet(scene.clock.now(), foreignKey, 'v2');
    assert.equal((await ask(scene, token)).authenticated, false);
  });

  test('a change of the Cluster ends cached acceptances', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene);
    await ask(scene, token);
    scene.change({});
    assert.ok(ask(scene, token) instanceof Promise);
  });

  for (const [name, change] of [
    ['changed', {}],
    ['deleted', undefined],
  ] as const) {
    test(`a check decides nothing where the Cluster was ${name} meanwhile`, async () => {
      const scene = reviewScene();
      const pending = ask(scene, tokenOf(scene));
      scene.change(change);
      await assert.rejects(async () => pending, unchecked('changed', /changed or deleted/));
    });
  }

  test('a lag of 0 asks the API server for each question', async () => {
    const scene = reviewScene({ maxRevocationLagMs: 0 });
    const token = tokenOf(scene);
    for (let i = 0; i < 3; i++) {
      await ask(scene, token);
      await scene.clock.advance(1);
    }
    assert.equal(scene.server.requests.length, 3);
  });

  test('one request in flight answers all who ask meanwhile', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene);
    const verdicts = await Promise.all(Array.from({ length: 100 }, () => asking(scene, token)));
    assert.ok(verdicts.every(({ authenticated }) => authenticated));
    assert.equal(scene.server.requests.length, 1);
  });

  test('with lag 0, questions during a request share the next one', async () => {
    const scene = reviewScene({ maxRevocationLagMs: 0 });
    const { clock, server } = scene;
    const token = tokenOf(scene);
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    server.behave = async (spec) => {
      const answer = server.answer(spec);
      await gates[server.requests.length - 1]?.promise;
      return answer;
    };
    const early = ask(scene, token);
    await clock.advance(1);
    server.revoked.add(token);
    const late = [1, 2, 3].map(() => asking(scene, token));
    await clock.advance(1);
    assert.equal(server.requests.length, 1);
    for (const gate of gates) gate.resolve();
    assert.equal((await early).authenticated, true);
    for (const verdict of await Promise.all(late)) assert.equal(verdict.authenticated, false);
    assert.equal(server.requests.length, 2);
  });
});

suite('metrics', () => {
  test('count reviews by cluster and result', async () => {
    const scene = reviewScene();
    const token = tokenOf(scene);
    await ask(scene, token);
    await ask(scene, token);
    await ask(scene, 'garbage');
    scene.server.goDown();
    await assert.rejects(async () => ask(scene, tokenOf(scene, { name: 'other' })));
    const text = scene.metrics.expose();
    for (const line of [
      'hansa_cluster_reviews_total{cluster="app1",result="authenticated"} 2',
      'hansa_cluster_reviews_total{cluster="app1",result="denied"} 1',
      'hansa_cluster_reviews_total{cluster="app1",result="unchecked"} 1',
      'hansa_cluster_reviews_unchecked_total{cluster="app1",reason="unreachable"} 1',
      'hansa_cluster_verdict_cache_lookups_total{cluster="app1",result="hit"} 1',
      'hansa_cluster_forwards_in_flight{cluster="app1"} 0',
      'hansa_cluster_forward_duration_seconds_count{cluster="app1"} 2',
      'hansa_verdict_cache_entries 2',
    ]) {
      assert.ok(text.includes(`${line}\n`), line);
    }
  });

  test('show a cluster from its registration, so that its first failure is an increase', () => {
    const { metrics } = reviewScene();
    assert.match(
      metrics.expose(),
      /^hansa_cluster_reviews_unchecked_total\{cluster="app1",reason="answer"\} 0$/m,
    );
  });

  test('stay without a cluster that went during a request', async () => {
    const scene = reviewScene();
    const pending = asking(scene, tokenOf(scene));
    scene.change(undefined);
    await assert.rejects(pending, unchecked('changed', /deleted/));
    assert.doesNotMatch(scene.metrics.expose(), /app1/);
  });

  test('forget a cluster that is gone', async () => {
    const scene = reviewScene();
    await ask(scene, tokenOf(scene));
    scene.change(undefined);
    assert.doesNotMatch(scene.metrics.expose(), /app1/);
    assert.match(scene.metrics.expose(), /^hansa_verdict_cache_bytes 0$/m);
  });
});
