import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { reviewHint } from './review-hint.ts';

const cluster = (name: string, issuer: string) =>
  ({ metadata: { name }, spec: { issuer } }) as unknown as Cluster;
const shared = 'https://kubernetes.default.svc';
const clusters = [
  cluster('app1', shared),
  cluster('app2', shared),
  cluster('gke', 'https://gke.example'),
];
const wrongKey = '[invalid bearer token, invalid signature, no keys found]';

suite('the hint for a denied token', () => {
  test('names the audience of the token', () => {
    const reason =
      '[invalid bearer token, token audiences ["db"] is invalid for the target audiences ["x"]]';
    for (const aud of ['db', ['db']]) {
      const hint = reviewHint({ cluster: 'app1', reason, claims: { iss: shared, aud }, clusters });
      assert.match(hint ?? '', /^The token is for db\. .*--audience db$/);
    }
    for (const aud of [undefined, 5, [], [{}], null]) {
      const claims = { iss: shared, aud } as never;
      assert.equal(reviewHint({ cluster: 'app1', reason, claims, clusters }), undefined);
    }
  });

  test('names the clusters that may have signed it', () => {
    const ask = (name: string, iss: string, known = clusters) =>
      reviewHint({ cluster: name, reason: wrongKey, claims: { iss }, clusters: known });
    assert.match(ask('app2', shared) ?? '', /another cluster signed it\. .*this issuer: app1\.$/);
    assert.match(
      ask('app1', shared, [cluster('app1', shared)]) ?? '',
      /another cluster signed it\. No other cluster of this site has this issuer\.$/,
    );
    // A user who may review but not list clusters.
    assert.match(ask('app1', shared, []) ?? '', /another cluster signed it\.$/);
    const many = Array.from({ length: 9 }, (_, index) => cluster(`c${index}`, shared));
    assert.match(ask('c0', shared, many) ?? '', /c1, c2, c3, c4, c5 and 3 more\.$/);
  });

  test('compares the issuer of the token with that of the cluster', () => {
    const reason = 'invalid bearer token';
    const hint = reviewHint({ cluster: 'gke', reason, claims: { iss: shared }, clusters });
    assert.equal(
      hint,
      `The issuer of the token is ${shared}, and that of the cluster is https://gke.example. Other clusters with this issuer: app1, app2.`,
    );
    const stranger = { iss: 'https://x.example' };
    assert.match(
      reviewHint({ cluster: 'gke', reason, claims: stranger, clusters }) ?? '',
      /No other cluster of this site has this issuer\.$/,
    );
  });

  test('is missing where the reason says enough, or the token says nothing', () => {
    const expired = '[invalid bearer token, service account token has expired]';
    const claims = { iss: shared };
    assert.equal(reviewHint({ cluster: 'app1', reason: expired, claims, clusters }), undefined);
    assert.equal(
      reviewHint({ cluster: 'app1', reason: wrongKey, claims: undefined, clusters }),
      undefined,
    );
  });
});
