import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ReportedFeatures } from './reported-features.ts';

const some = { capabilities: ['catalog', 'grants'], extensionSlugs: ['maps'] };
const other = { capabilities: ['grants'], extensionSlugs: [] };

/** One heartbeat and its answer. */
function exchange(lubeck: ReportedFeatures, bruges: ReportedFeatures) {
  const request = lubeck.part('bruges');
  const there = bruges.heard('lubeck', request);
  const answer = bruges.part('lubeck');
  return { request, answer, there, here: lubeck.heard('bruges', answer) };
}

suite('features in heartbeats', () => {
  test('both sites know the names after one exchange, and then send only a hash', () => {
    const lubeck = new ReportedFeatures(some);
    const bruges = new ReportedFeatures(other);
    const first = exchange(lubeck, bruges);
    assert.deepEqual([first.there, first.here], [some, other]);
    const second = exchange(lubeck, bruges);
    assert.deepEqual([second.request.names, second.answer.names], [undefined, undefined]);
    assert.deepEqual([second.there, second.here], [some, other]);
    assert.ok(JSON.stringify(second.request).length < 80);
  });

  test('a site that restarts with other names sends them, and the other asks again for its own', () => {
    const lubeck = new ReportedFeatures(some);
    exchange(lubeck, new ReportedFeatures(other));
    const restarted = new ReportedFeatures(some);
    const { answer, here } = exchange(lubeck, restarted);
    assert.deepEqual(answer.names, some);
    assert.deepEqual(here, some);
    // The new process learns ours with the next heartbeat.
    assert.deepEqual(exchange(lubeck, restarted).there, some);
  });

  test('a hash without names that were heard before says nothing', () => {
    const lubeck = new ReportedFeatures(some);
    exchange(lubeck, new ReportedFeatures(other));
    assert.equal(lubeck.heard('bruges', { hash: 'x'.repeat(22) }), undefined);
    // It still has the names of before, and does not take them for those of the new hash.
    assert.deepEqual(lubeck.part('bruges').has, new ReportedFeatures(other).part('x').hash);
  });

  test('a peer that reports nothing gets a hash and no names after its first message', () => {
    const lubeck = new ReportedFeatures(some);
    assert.deepEqual(lubeck.part('bruges').names, some);
    assert.equal(lubeck.heard('bruges', undefined), undefined);
    assert.equal(lubeck.part('bruges').names, undefined);
  });
});
