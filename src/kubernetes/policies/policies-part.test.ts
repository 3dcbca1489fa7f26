import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { contents, policy, policyLeague, reasonIn, recordOf } from './test-policy-league.ts';

const started = async () => {
  const league = await policyLeague();
  await league.lead();
  const [a, b, c] = ['a', 'b', 'c'].map((id) => league.cluster(id));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  return { league, a, b, c };
};

suite('a policy with the annotation', () => {
  test('is created, changed and deleted in all members, from any of them', async () => {
    const { league, a, b, c } = await started();
    await a.apply('networkpolicies', policy('v1'));
    await league.settle();
    assert.deepEqual(contents(league), ['v1', 'v1', 'v1']);
    assert.deepEqual(
      ['a', 'b', 'c'].map((id) => reasonIn(league.cluster(id))),
      ['Replicated', 'Replicated', 'Replicated'],
    );
    await b.apply('networkpolicies', policy('v2'));
    await league.settle();
    assert.deepEqual(contents(league), ['v2', 'v2', 'v2']);
    await c.remove('networkpolicies', 'shop/deny');
    await league.settle();
    assert.deepEqual(contents(league), [undefined, undefined, undefined]);
    assert.equal(recordOf(a)?.spec.state, 'Deleted');
    assert.deepEqual(league.refusals, []);
  });
});
