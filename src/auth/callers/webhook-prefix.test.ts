import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Verdict } from '../review/verdict.ts';
import { testCluster } from '../clusters/test-reviewed-clusters.ts';
import { checkPrefix, verdictFor } from './webhook-prefix.ts';

const cluster = testCluster('app1', {
  webhookPrefixes: new Map([['token:app2-apiserver', 'app1:']]),
});
const accepted: Verdict = {
  authenticated: true,
  user: {
    username: 'system:serviceaccount:shop:web',
    uid: 'u1',
    groups: ['system:serviceaccounts', 'system:authenticated', 'system:masters'],
    extra: { 'authentication.kubernetes.io/pod-name': ['p'] },
  },
  audiences: ['a'],
  expiresAtMs: 5,
};

test('a webhook authenticator gets the user, its UID, every group and every key of extra with the prefix', () => {
  assert.deepEqual(verdictFor('token:app2-apiserver', cluster, accepted), {
    ...accepted,
    user: {
      username: 'app1:system:serviceaccount:shop:web',
      uid: 'app1:u1',
      groups: ['app1:system:serviceaccounts', 'app1:system:authenticated', 'app1:system:masters'],
      extra: { 'app1:authentication.kubernetes.io/pod-name': ['p'] },
    },
  });
});

test('a webhook authenticator may not ask about a cluster that gives it no prefix', () => {
  const other = testCluster('app3');
  const clusters = [cluster, other];
  assert.throws(() => checkPrefix('token:app2-apiserver', other, clusters), {
    code: 'HANSA_FORBIDDEN',
    message: /"app3" is forbidden: token:app2-apiserver .*webhookAuthenticators/,
  });
  checkPrefix('token:app2-apiserver', cluster, clusters);
  checkPrefix('token:app2', other, clusters);
  checkPrefix('token:app2-apiserver', other, [other]);
});

test('other callers and denials get the exact answer', () => {
  assert.equal(verdictFor('token:app2', cluster, accepted), accepted);
  const denied: Verdict = { authenticated: false, error: 'no' };
  assert.equal(verdictFor('token:app2-apiserver', cluster, denied), denied);
});

test('a user without a UID stays without one', () => {
  const verdict = { ...accepted, user: { ...accepted.user, uid: '' } };
  const shown = verdictFor('token:app2-apiserver', cluster, verdict);
  assert.ok(shown.authenticated && shown.user.uid === '');
});
