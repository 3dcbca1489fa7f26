import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { Acceptance } from '../review/verdict.ts';
import { type CheckedVerdict, knownTokenBytes } from './known-token-bytes.ts';
import { issuer, userOf } from './test-tokens.ts';
import { questionKey, VerdictCache } from './verdict-cache.ts';

const app1 = { uid: 'uid-1', generation: 1 };
const app2 = { uid: 'uid-2', generation: 1 };

function cacheOf(maxEntries = 100) {
  const clock = new VirtualClock();
  const accept = (name = 'app', lifetimeMs = 3_600_000): Acceptance => ({
    authenticated: true,
    user: userOf(name),
    audiences: [issuer],
    expiresAtMs: clock.now() + lifetimeMs,
  });
  const each = knownTokenBytes(StoredAcceptance.of(accept('aaa')), undefined);
  const cache = new VerdictCache({ clock, maxBytes: maxEntries * each });
  const add = (
    cluster: typeof app1,
    version: string,
    key: string,
    acceptance: Acceptance,
    until?: number,
  ): void => cache.add(cluster, version, key, acceptance, acceptance, until);
  const find = (cluster: typeof app1, version: string, key: string): CheckedVerdict =>
    cache.find(cluster, version, key)?.checked;
  return { clock, cache, add, find, accept, each };
}

suite('the key of a question', () => {
  test('does not depend on the order of the audiences', () => {
    assert.equal(questionKey('t', ['b', 'a']), questionKey('t', ['a', 'b']));
  });

  test('differs for every other token and audience', () => {
    const questions: [string, string[]][] = [
      ['t', []],
      ['t', ['']],
      ['t', ['a']],
      ['t', ['a', 'b']],
      ['t', ['a,b']],
      ['t', ['a","b']],
      ['t\0', []],
      ['t\0["a"]', []],
      ['t\0', ['a']],
      ['t["a"]', []],
      ['u', []],
    ];
    const keys = questions.map(([token, audiences]) => questionKey(token, audiences));
    assert.equal(new Set(keys).size, questions.length);
  });

  test('has 32 characters and contains nothing of the token', () => {
    const token = 'x'.repeat(5000);
    assert.equal(questionKey(token, ['a']).length, 32);
  });
});

suite('a cached acceptance', () => {
  test('is found until its check is too old', async () => {
    const { clock, cache, add, find, accept } = cacheOf();
    const acceptance = accept();
    add(app1, 'v1', 'key', acceptance, clock.monotonic() + 10_000);
    await clock.advance(9_999);
    assert.deepEqual(find(app1, 'v1', 'key'), StoredAcceptance.of(acceptance));
    await clock.advance(1);
    assert.equal(find(app1, 'v1', 'key'), undefined);
    assert.deepEqual(cache.find(app1, 'v1', 'key')?.claims, StoredAcceptance.of(acceptance));
  });

  test('ends with its token, although its check is young', async () => {
    const { clock, add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept('app', 5_000), clock.monotonic() + 10_000);
    await clock.advance(4_999);
    assert.notEqual(find(app1, 'v1', 'key'), undefined);
    await clock.advance(1);
    assert.equal(find(app1, 'v1', 'key'), undefined);
  });

  test('ends when the wall clock jumps past the expiry of its token', () => {
    const { clock, add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept('app', 5_000));
    clock.jumpWall(5_000);
    assert.equal(find(app1, 'v1', 'key'), undefined);
  });

  test('lives no longer because the wall clock jumps back', async () => {
    const { clock, add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept('app', 5_000));
    clock.jumpWall(-3_600_000);
    await clock.advance(5_000);
    assert.equal(find(app1, 'v1', 'key'), undefined);
  });

  test('is not kept where the token has expired', () => {
    const { cache, add, accept } = cacheOf();
    add(app1, 'v1', 'a', accept('app', 0));
    assert.equal(cache.size, 0);
  });

  test('that was never there leaves the claims', () => {
    const { clock, cache, add, accept } = cacheOf();
    cache.add(app1, 'v1', 'a', accept());
    add(app1, 'v1', 'b', accept(), clock.monotonic());
    for (const key of ['a', 'b']) {
      assert.notEqual(cache.find(app1, 'v1', key), undefined);
      assert.equal(cache.find(app1, 'v1', key)?.checked, undefined);
    }
  });

  test('of a token without an end is kept', async () => {
    const { clock, add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept('app', Number.POSITIVE_INFINITY), 10_000);
    assert.notEqual(find(app1, 'v1', 'key'), undefined);
    await clock.advance(10_000);
    assert.equal(find(app1, 'v1', 'key'), undefined);
  });

  test('ends when the keys of the cluster change', () => {
    const { add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept());
    assert.equal(find(app1, 'v2', 'key'), undefined);
    assert.equal(find(app1, 'v1', 'key'), undefined);
  });

  test('is not found for another cluster or another version of the cluster', () => {
    const { add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept());
    assert.equal(find(app2, 'v1', 'key'), undefined);
    assert.equal(find({ ...app1, generation: 2 }, 'v1', 'key'), undefined);
    assert.equal(find({ ...app1, generation: 0 }, 'v1', 'key'), undefined);
  });

  test('can be followed by a denial, for as long as that counts', async () => {
    const { clock, cache, add, find, accept } = cacheOf();
    add(app1, 'v1', 'key', accept());
    const denial = { authenticated: false, error: 'revoked' } as const;
    cache.add(app1, 'v1', 'key', accept(), denial, clock.monotonic() + 1_000);
    assert.equal(find(app1, 'v1', 'key'), denial);
    await clock.advance(1_000);
    assert.equal(find(app1, 'v1', 'key'), undefined);
    assert.notEqual(cache.find(app1, 'v1', 'key'), undefined);
  });

  test('of an older version of the cluster is not kept beside a newer one', () => {
    const { add, find, accept } = cacheOf();
    add({ ...app1, generation: 2 }, 'v1', 'new', accept());
    add(app1, 'v1', 'old', accept());
    assert.equal(find(app1, 'v1', 'old'), undefined);
    assert.notEqual(find({ ...app1, generation: 2 }, 'v1', 'new'), undefined);
  });

  test('goes with its cluster, and with a change of it', () => {
    const { cache, add, find, accept } = cacheOf();
    for (const cluster of [app1, app2, { uid: 'uid-3', generation: 1 }]) {
      add(cluster, 'v1', 'key', accept());
    }
    cache.retain([app1, { ...app2, generation: 2 }]);
    assert.equal(cache.size, 1);
    assert.notEqual(find(app1, 'v1', 'key'), undefined);
  });

  test('can be removed', () => {
    const { cache, add, accept } = cacheOf();
    add(app1, 'v1', 'key', accept());
    cache.remove(app1, 'other');
    cache.remove(app2, 'key');
    assert.equal(cache.size, 1);
    cache.remove(app1, 'key');
    assert.deepEqual([cache.size, cache.bytes], [0, 0]);
  });
});

suite('the size of the cache', () => {
  test('is bounded, and the oldest unused entries go first', () => {
    const { add, find, accept } = cacheOf(3);
    for (const key of ['a', 'b', 'c']) add(app1, 'v1', key, accept('aaa'));
    find(app1, 'v1', 'a');
    add(app1, 'v1', 'd', accept('aaa'));
    const found = ['a', 'b', 'c', 'd'].filter((key) => find(app1, 'v1', key) !== undefined);
    assert.deepEqual(found, ['a', 'c', 'd']);
  });

  test('spares a bounded number of used entries for one that is added', () => {
    const { add, find, accept } = cacheOf(1_200);
    const names = Array.from({ length: 1_200 }, (_, index) => `n${index}`);
    for (const name of names) add(app1, 'v1', name, accept('aaa'));
    for (const name of names) find(app1, 'v1', name);
    add(app1, 'v1', 'another', accept('aaa'));
    const gone = names.filter((name) => find(app1, 'v1', name) === undefined);
    assert.deepEqual(gone, ['n1000']);
  });

  test('leaves out an acceptance that is larger than the whole cache', () => {
    const { add, find, accept } = cacheOf(3);
    add(app1, 'v1', 'small', accept('aaa'));
    add(app1, 'v1', 'large', accept('a'.repeat(10_000)));
    assert.equal(find(app1, 'v1', 'large'), undefined);
    assert.notEqual(find(app1, 'v1', 'small'), undefined);
  });

  test('is shared, so a flood in one cluster does not displace another one', () => {
    const { add, find, accept } = cacheOf(10);
    for (let i = 0; i < 5; i++) add(app2, 'v1', `quiet${i}`, accept('aaa'));
    for (let i = 0; i < 1000; i++) add(app1, 'v1', `flood${i}`, accept('aaa'));
    for (let i = 0; i < 5; i++) assert.notEqual(find(app2, 'v1', `quiet${i}`), undefined);
  });

  test('gives a new cluster its share of a full cache', () => {
    const { add, find, accept } = cacheOf(10);
    for (let i = 0; i < 10; i++) add(app1, 'v1', `first${i}`, accept('aaa'));
    for (let i = 0; i < 5; i++) add(app2, 'v1', `second${i}`, accept('aaa'));
    for (let i = 0; i < 5; i++) assert.notEqual(find(app2, 'v1', `second${i}`), undefined);
  });

  test('shrinks while entries are added, without a timer', async () => {
    const { clock, cache, add, accept } = cacheOf();
    for (let i = 0; i < 8; i++) {
      add(app1, 'v1', `old${i}`, accept('aaa', 1000));
    }
    await clock.advance(1000);
    for (const key of ['a', 'b']) add(app1, 'v1', key, accept('aaa'));
    assert.equal(cache.size, 2);
  });

  test('is right after any history', () => {
    const cluster = fc.record({
      uid: fc.constantFrom('uid-1', 'uid-2', 'uid-3'),
      generation: fc.integer({ min: 1, max: 3 }),
    });
    const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');
    const step = fc.oneof(
      fc.record({
        do: fc.constant('add' as const),
        cluster,
        key,
        name: fc.string({ maxLength: 400 }),
        lagMs: fc.integer({ min: -10, max: 2000 }),
      }),
      fc.record({
        do: fc.constant('find' as const),
        cluster,
        key,
        version: fc.constantFrom('v1', 'v2'),
      }),
      fc.record({ do: fc.constant('remove' as const), cluster, key }),
      fc.record({
        do: fc.constant('retain' as const),
        clusters: fc.array(cluster, { maxLength: 3 }),
      }),
    );
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 200 }),
        fc.integer({ min: 1, max: 6 }),
        (steps, most) => {
          const { clock, cache, add, find, accept, each } = cacheOf(most);
          for (const taken of steps) {
            if (taken.do === 'add') {
              add(
                taken.cluster,
                'v1',
                taken.key,
                accept(taken.name),
                clock.monotonic() + taken.lagMs,
              );
            } else if (taken.do === 'find') find(taken.cluster, taken.version, taken.key);
            else if (taken.do === 'remove') cache.remove(taken.cluster, taken.key);
            else cache.retain(taken.clusters);
            assert.ok(cache.bytes <= most * each);
            assert.ok(cache.bytes >= 0);
            assert.equal(cache.bytes === 0, cache.size === 0);
          }
          cache.retain([]);
          assert.deepEqual([cache.bytes, cache.size], [0, 0]);
        },
      ),
    );
  });

  test('is close to the memory that it takes', () => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const { clock, cache, add } = cacheOf(1_000_000);
    const count = 20_000;
    // Parsed, as the claims of tokens are, so that no two entries share a string.
    const text = JSON.stringify(userOf('app-0123456789'));
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < count; i++) {
      add(app1, 'v1', questionKey(`token ${i}`, []), {
        authenticated: true,
        user: JSON.parse(text) as Acceptance['user'],
        audiences: JSON.parse(`["${issuer}"]`) as string[],
        expiresAtMs: clock.now() + 3_600_000,
      });
    }
    collectGarbage();
    const real = process.memoryUsage().heapUsed - before;
    assert.equal(cache.size, count);
    const ratio = real / cache.bytes;
    assert.ok(
      ratio > 0.6 && ratio < 1.15,
      `${real / count} bytes each, said ${cache.bytes / count}`,
    );
  });
});
