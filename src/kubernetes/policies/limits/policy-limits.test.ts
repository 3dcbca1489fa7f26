import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { MemberSettings } from '../../members/member.ts';
import { policyLimits } from '../../members/member-collections.ts';
import { replicaAnnotation } from '../../names.ts';
import {
  contentIn,
  contents,
  networkPolicies,
  policy,
  policyLeague,
  reasonIn,
  recordOf,
} from '../test-policy-league.ts';
import { fullnessOf } from './policy-limits.ts';

const { plural } = networkPolicies;
const none: readonly undefined[] = [undefined, undefined];
const some = { services: 10, endpoints: 100 };

async function startedWith(limits?: MemberSettings['limits']) {
  const league = await policyLeague({
    settings: (id) => (id === 'a' && limits !== undefined ? { limits } : {}),
  });
  await league.lead();
  const [a, b, c] = ['a', 'b', 'c'].map((id) => league.cluster(id));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  const create = async (...names: readonly string[]): Promise<void> => {
    for (const name of names) {
      await a.apply(plural, policy('v1', name));
      // Creation times have seconds.
      await league.clock.advance(1000);
    }
    await league.settle();
  };
  return { league, a, b, c, create };
}

suite('a member with more policies than its limit', () => {
  test('spreads the oldest, and the others say why not and what to do', async () => {
    const { league, a, b, create } = await startedWith({ ...some, policies: 2 });
    await create('z-first', 'second');
    assert.deepEqual(contents(league, 'second'), ['v1', 'v1', 'v1']);
    assert.equal(reasonIn(a, 'second'), 'Replicated');
    await create('a-third');
    assert.deepEqual(contents(league, 'a-third'), ['v1', ...none]);
    assert.equal(reasonIn(a, 'a-third'), 'TooMany');
    const message = recordOf(a, 'a-third')?.status?.conditions?.[0]?.message ?? '';
    assert.match(message, /at most 2 policies .* of a, .* limits\.policies .* of a in Federation/);
    assert.equal(recordOf(b, 'a-third'), undefined);
    assert.deepEqual(contents(league, 'z-first'), ['v1', 'v1', 'v1']);
  });

  test('spreads the next one when an older one is deleted', async () => {
    const { league, a, create } = await startedWith({ ...some, policies: 1 });
    await create('first', 'second', 'third');
    await a.remove(plural, 'shop/first');
    await league.settle();
    assert.deepEqual(contents(league, 'first'), [undefined, ...none]);
    assert.deepEqual(contents(league, 'second'), ['v1', 'v1', 'v1']);
    assert.equal(reasonIn(a, 'second'), 'Replicated');
    assert.deepEqual(contents(league, 'third'), ['v1', ...none]);
  });

  test('still gets, changes and deletes the policies of others', async () => {
    const { league, a, b, create } = await startedWith({ ...some, policies: 0 });
    await create('own');
    await b.apply(plural, policy('v1', 'theirs'));
    await league.settle();
    assert.deepEqual(contents(league, 'theirs'), ['v1', 'v1', 'v1']);
    await a.apply(plural, policy('v2', 'theirs'));
    await league.settle();
    assert.deepEqual(contents(league, 'theirs'), ['v2', 'v2', 'v2']);
    await a.remove(plural, 'shop/theirs');
    await league.settle();
    assert.deepEqual(contents(league, 'theirs'), [undefined, ...none]);
    assert.deepEqual(contents(league, 'own'), ['v1', ...none]);
  });

  test('loses nothing in others when its policies grow, and catches up when they shrink', async () => {
    const { league, a, b, create } = await startedWith({ ...some, policyBytes: 2500 });
    await create('first', 'second');
    assert.deepEqual(contents(league, 'second'), ['v1', 'v1', 'v1']);
    const large = 'x'.repeat(4000);
    await a.apply(plural, policy(large, 'second'));
    await league.settle();
    assert.deepEqual(contents(league, 'second'), [large, 'v1', 'v1']);
    assert.deepEqual([reasonIn(a, 'second'), reasonIn(b, 'second')], ['TooMany', 'TooMany']);
    assert.deepEqual(contents(league, 'first'), ['v1', 'v1', 'v1']);
    await a.apply(plural, policy('v3', 'second'));
    await league.settle();
    assert.deepEqual(contents(league, 'second'), ['v3', 'v3', 'v3']);
    assert.deepEqual([reasonIn(a, 'second'), reasonIn(b, 'second')], ['Replicated', 'Replicated']);
  });

  test('cannot hide that they are its own', async () => {
    const { league, a } = await startedWith({ ...some, policies: 1 });
    for (const name of ['first', 'second', 'third']) {
      const found = policy('v1', name);
      const annotations = { ...found.metadata.annotations, [replicaAnnotation]: 'b' };
      a.kube.put(plural, 'shop', name, { ...found, metadata: { ...found.metadata, annotations } });
    }
    await league.settle(20_000);
    const spread = ['first', 'second', 'third'].filter(
      (name) => contentIn(league.cluster('b'), name) !== undefined,
    );
    assert.equal(spread.length, 1);
  });
});

test('a member without a limit of its own spreads what it has', async () => {
  const { league, create } = await startedWith();
  await create('first', 'second');
  assert.deepEqual(contents(league, 'second'), ['v1', 'v1', 'v1']);
});

suite('a member whose cache is three quarters full', () => {
  const reflector = (objects: number, bytes: number) => ({ status: () => ({ objects, bytes }) });
  const limitOf = (objects: number, bytes: number) =>
    fullnessOf({
      clusterID: 'b',
      policies: new Map([['networkpolicies.networking.k8s.io', reflector(objects, bytes)]]),
      policyRecords: reflector(0, 0),
    } as unknown as Parameters<typeof fullnessOf>[0]);
  const { maxObjects, maxBytes } = policyLimits;

  test('gets no new policies, and changes of those that it has', () => {
    assert.equal(limitOf(maxObjects * 0.75, 0), undefined);
    const limit = limitOf(maxObjects * 0.75 + 1, 0);
    assert.equal(limit?.isForNew, true);
    assert.match(limit?.message ?? '', /^b has so many policies/);
  });

  test('gets no changes either if they would take memory', () => {
    assert.equal(limitOf(1, maxBytes * 0.75), undefined);
    assert.equal(limitOf(1, maxBytes * 0.75 + 1)?.isForNew, false);
  });
});
