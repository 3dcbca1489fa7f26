import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PolicyMember, viewOf } from './policy-member.ts';
import { retentionMs, nowMs } from './test-policy-views.ts';
import { TestPolicyMember } from './view/test-policy-members.ts';

const networkPolicy = { group: 'networking.k8s.io', plural: 'networkpolicies', namespace: 'shop' };
const ref = { ...networkPolicy, name: 'web' };

function readiness(change: (member: TestPolicyMember) => void): boolean {
  const member = new TestPolicyMember('a', 'shop');
  change(member);
  const now = { nowMs, monotonicMs: 0 };
  return viewOf(member as unknown as PolicyMember, ref, now, retentionMs).isReady;
}

test('nothing is decided about what a member lacks while it is not followed', () => {
  assert.ok(readiness(() => {}));
  for (const reason of ['over-limit', 'forbidden']) {
    const failure = { reason, message: '' };
    assert.ok(!readiness((member) => Object.assign(member.policyRecords, { failure })), reason);
    assert.ok(
      !readiness(({ policies }) => {
        for (const cache of policies.values()) Object.assign(cache, { failure });
      }),
      reason,
    );
  }
  assert.ok(!readiness((member) => Object.assign(member.policyRecords, { isServed: false })));
});

test('a member that does not serve a kind, or whose watch was lost for a moment, is followed', () => {
  assert.ok(
    readiness(({ policies }) => {
      for (const cache of policies.values()) cache.isServed = false;
    }),
  );
  const failure = { reason: 'silent', message: '' };
  assert.ok(readiness((member) => Object.assign(member.policyRecords, { failure })));
});
