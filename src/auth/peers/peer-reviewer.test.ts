import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import type { TransportResponse } from '../../core/identity/tls/transport.ts';
import type { PeerCall } from '../../core/plane/call-peer.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { asking, reviewScene, tokenOf, unchecked } from '../forward/test-scene.ts';
import {
  acceptingStatus,
  foreignKey,
  jsonResponse,
  type ReviewSpec,
  revokedText,
  specOf,
  tokenReview,
  userOf,
} from '../forward/test-tokens.ts';
import type { Acceptance } from '../review/verdict.ts';
import { peerReviewer } from './peer-reviewer.ts';

const prefix = 'app1.bruges.example:';
const peer = { trustDomain: 'bruges.example', cluster: 'app1', prefix };

/** The site of the peer answers with `answer`, which begins as a correct one. */
function peerScene(settings: Partial<ReviewedCluster> = {}) {
  const calls: (PeerCall & { readonly peer: string })[] = [];
  const site = {
    calls,
    status: (spec: ReviewSpec): object => acceptingStatus(spec),
    answer: (spec: ReviewSpec): TransportResponse =>
      jsonResponse(200, { cluster: 'app1', review: tokenReview(spec, site.status(spec)) }),
  };
  const upstream = peerReviewer(async (name, call) => {
    calls.push({ ...call, peer: name });
    return site.answer(specOf(Buffer.from(call.body ?? '')));
  }, peer);
  const scene = reviewScene({
    name: 'far',
    mode: 'tokenreview',
    peer,
    upstream,
    client: undefined,
    apiServer: undefined,
    apiAudiences: [],
    ...settings,
  });
  return { scene, site, ask: (token: string) => asking(scene, token, ['db']) };
}

suite('a review that the site of a peer is asked about', () => {
  test('sends the token under the name of the cluster there, and gives users the prefix', async () => {
    const { scene, site, ask } = peerScene();
    const token = tokenOf(scene, { audiences: ['db'] });
    const verdict = (await ask(token)) as Acceptance;
    assert.equal(verdict.user.username, prefix + userOf().username);
    assert.ok(verdict.user.groups.every((group) => group.startsWith(prefix)));
    const [call, ...more] = site.calls;
    assert.deepEqual(more, []);
    assert.equal(call?.peer, 'bruges.example');
    assert.equal(call.path, '/hansa/federation/v1/clusters/app1/tokenreviews');
    const { spec } = JSON.parse(String(call.body)) as { readonly spec: ReviewSpec };
    assert.deepEqual(spec, { token, audiences: ['db'] });
  });

  test('is denied in the words of the peer', async () => {
    const { scene, site, ask } = peerScene();
    site.status = () => ({ error: revokedText });
    assert.deepEqual(await ask(tokenOf(scene, { audiences: ['db'] })), {
      authenticated: false,
      error: revokedText,
    });
  });

  test('does not leave this site where the claims or the signature decide', async () => {
    const { scene, site, ask } = peerScene();
    const tokens = [
      tokenOf(scene, { audiences: ['cache'] }),
      tokenOf(scene, { audiences: ['db'], key: foreignKey }),
      tokenOf(scene, { audiences: ['db'], lifetimeSeconds: -3600 }),
      tokenOf(scene, { audiences: [] }),
    ];
    for (const token of tokens) assert.equal((await ask(token)).authenticated, false);
    assert.equal(site.calls.length, 0);
  });

  const lies: Record<string, (spec: ReviewSpec) => unknown> = {
    'about another cluster': (spec) => ({
      cluster: 'app2',
      review: tokenReview(spec, acceptingStatus(spec)),
    }),
    'about no cluster': (spec) => ({ review: tokenReview(spec, acceptingStatus(spec)) }),
    'about another token': (spec) => ({
      cluster: 'app1',
      review: tokenReview({ ...spec, token: 'x' }, acceptingStatus(spec)),
    }),
    'about another audience': (spec) => ({
      cluster: 'app1',
      review: tokenReview({ ...spec, audiences: ['cache'] }, acceptingStatus(spec)),
    }),
    'with an audience that was not asked for': (spec) => ({
      cluster: 'app1',
      review: tokenReview(spec, { ...acceptingStatus(spec), audiences: ['db', 'cache'] }),
    }),
    'with system:masters': (spec) => ({
      cluster: 'app1',
      review: tokenReview(spec, {
        ...acceptingStatus(spec),
        user: { ...userOf(), groups: [...userOf().groups, 'system:masters'] },
      }),
    }),
    'with another user': (spec) => ({
      cluster: 'app1',
      review: tokenReview(spec, {
        ...acceptingStatus(spec),
        user: { ...userOf(), username: 'system:admin' },
      }),
    }),
    'without a review': () => ({ cluster: 'app1' }),
    'that is a list': () => ['app1'],
    'with too many values': () => ({
      cluster: 'app1',
      review: Array.from({ length: 9000 }, () => 1),
    }),
  };
  for (const [what, bodyOf] of Object.entries(lies)) {
    test(`is not decided by an answer ${what}, which is in the audit log`, async () => {
      const { scene, site, ask } = peerScene();
      site.answer = (spec) => jsonResponse(200, bodyOf(spec));
      const token = tokenOf(scene, { audiences: ['db'] });
      await assert.rejects(
        ask(token),
        unchecked(
          'answer',
          /cluster far: .*the site of bruges\.example: .*Ask the operator of bruges/,
        ),
      );
      const [record, ...more] = scene.audited;
      assert.deepEqual(more, []);
      assert.equal(record?.actor.user, 'spiffe://bruges.example/hansa/site');
      assert.deepEqual(
        [record.verb, record.name, record.peer, record.outcome],
        ['cluster.refuse', 'far', 'bruges.example', 'deny'],
      );
      assert.match(record.tokenHash ?? '', /^[0-9a-f]{16}$/);
      assert.doesNotMatch(JSON.stringify(scene.audited), new RegExp(token.slice(-20)));
    });
  }

  test('that is about another cluster says so', async () => {
    const { scene, site, ask } = peerScene();
    site.answer = () => jsonResponse(200, { cluster: 'app2\n', review: {} });
    await assert.rejects(ask(tokenOf(scene, { audiences: ['db'] })));
    assert.equal(
      scene.audited[0]?.reason,
      'it is about another cluster than app1, which this site asked about',
    );
  });

  const statuses: readonly (readonly [number, string, RegExp])[] = [
    [401, 'credential', /bruges\.example denies its cluster app1 to this site/],
    [403, 'credential', /bruges\.example denies its cluster app1 to this site/],
    [404, 'credential', /bruges\.example has no cluster app1 of its own/],
    [429, 'throttled', /the site of bruges\.example answered that this site asks too often/],
    [500, 'unreachable', /the site of bruges\.example answered HTTP 500/],
    [503, 'unreachable', /the site of bruges\.example answered HTTP 503/],
    [400, 'answer', /it answered HTTP 400/],
    [302, 'answer', /it answered HTTP 302/],
  ];
  for (const [status, reason, why] of statuses) {
    test(`is unavailable where the site of the peer answers HTTP ${status}`, async () => {
      const { scene, site, ask } = peerScene();
      site.answer = () => jsonResponse(status, {});
      await assert.rejects(ask(tokenOf(scene, { audiences: ['db'] })), unchecked(reason, why));
    });
  }

  const failures = [
    ['HANSA_PEER_UNTRUSTED', 'credential', /does not trust bruges\.example now/],
    ['HANSA_UNREACHABLE', 'unreachable', /the site of bruges\.example does not answer/],
    ['HANSA_CERTIFICATE_INVALID', 'unreachable', /does not trust the certificate of the site of/],
    ['HANSA_UNAVAILABLE', 'busy', /the site of bruges\.example is too slow/],
    ['HANSA_TOO_LARGE', 'answer', /the answer is too large/],
  ] as const;
  for (const [code, reason, why] of failures) {
    test(`is unavailable where the call fails with ${code}`, async () => {
      const { scene, site, ask } = peerScene();
      site.answer = () => {
        throw new HansaError(code, 'https://10.0.0.7 says no');
      };
      await assert.rejects(ask(tokenOf(scene, { audiences: ['db'] })), (error: Error) => {
        assert.doesNotMatch(error.message, /10\.0\.0\.7/);
        return why.test(error.message) && (error as { reason?: string }).reason === reason;
      });
    });
  }

  test('uses a positive answer again for the lag in mode hybrid, and not longer', async () => {
    const { scene, site, ask } = peerScene({ mode: 'hybrid', maxRevocationLagMs: 10_000 });
    const token = tokenOf(scene, { audiences: ['db'] });
    await ask(token);
    site.status = () => ({ error: revokedText });
    await scene.clock.advance(9_999);
    const again = (await ask(token)) as Acceptance;
    assert.equal(again.user.username, prefix + userOf().username);
    assert.equal(site.calls.length, 1);
    await scene.clock.advance(1);
    assert.equal((await ask(token)).authenticated, false);
  });
});
