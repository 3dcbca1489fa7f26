import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { MemberState } from '../members/member.ts';
import { fateOf, isUnreachablePolicy } from './unreachable.ts';

const at = (state: MemberState['state'], sinceMonotonicMs = 0): MemberState => ({
  state,
  sinceMs: Date.parse('2026-01-01T00:00:00Z'),
  sinceMonotonicMs,
  reason: 'X',
  message: '',
});

describe('the endpoints of a member', () => {
  test('are used while it is reached, and not at all while it is refused', () => {
    assert.equal(fateOf(at('Ready'), {}, undefined, 1e9).fate, 'use');
    assert.equal(fateOf(at('Refused'), {}, 'keep', 0).fate, 'remove');
  });

  test('stay for five minutes by default, then go', () => {
    const unreachable = at('Unreachable', 1000);
    assert.deepEqual(fateOf(unreachable, {}, undefined, 2000), { fate: 'use', nextMs: 301_000 });
    const late = fateOf(unreachable, {}, undefined, 301_000);
    assert.deepEqual(late, { fate: 'remove', nextMs: undefined });
  });

  test('drain or go at once where the member or the Service says so', () => {
    const drain = { unreachable: { policy: 'Drain', graceSeconds: 10 } } as const;
    assert.deepEqual(fateOf(at('Unreachable'), drain, undefined, 0), {
      fate: 'drain',
      nextMs: 10_000,
    });
    assert.equal(fateOf(at('Unreachable'), drain, undefined, 10_000).fate, 'remove');
    assert.equal(fateOf(at('Unreachable'), drain, 'remove', 0).fate, 'remove');
    assert.deepEqual(fateOf(at('Unreachable'), drain, 'keep 60', 0), {
      fate: 'use',
      nextMs: 60_000,
    });
  });

  test('are used until the first attempt to reach the member has failed, but not for ever', () => {
    for (const policy of ['drain 10', 'remove']) {
      const fate = { fate: 'use', nextMs: 300_000 };
      assert.deepEqual(fateOf(at('Connecting'), {}, policy, 20_000), fate);
      assert.equal(fateOf(at('Connecting'), {}, policy, 300_000).fate, 'remove');
    }
  });

  test('follow the member where the annotation cannot be read', () => {
    for (const text of ['', 'forever', 'keep -1', 'keep 1e9', 'drain 5 6', 'keep  5']) {
      assert.equal(isUnreachablePolicy(text), false);
      assert.equal(fateOf(at('Unreachable'), {}, text, 0).nextMs, 300_000);
    }
    assert.equal(isUnreachablePolicy('Keep 600'), true);
  });
});
