// Reviews of tokens of a peer's cluster, with two real daemons and the issuers of two clusters.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type PeeringSite, startPair } from './peering-pair.ts';
import { type Answer, call, review, reviews } from './review-scene.ts';
import { issuer, type IssuerRequest, startTokenIssuer, type TokenIssuer } from './token-issuer.ts';
import { until } from './until.ts';

const prefix = 'app1.bruges.example:';

/** The user of a token of the issuer, as an API server reports it. */
const web = {
  username: 'system:serviceaccount:shop:web',
  uid: '0f4bcb8d-24a1-4f7d-bb6a-0a4d6b1b9f0e',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
};

suite('a cluster of a peer', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;
  let app1: TokenIssuer;
  let other: TokenIssuer;
  /** Its API server reviews tokens with the status `said`, and fails without one. */
  let live: TokenIssuer;
  let said: object | undefined;
  let reviewed = 0;
  let reviewer = '';

  before(async () => {
    [[lubeck, bruges], app1, other, live] = await Promise.all([
      startPair('lubeck', 'bruges') as Promise<unknown> as Promise<[PeeringSite, PeeringSite]>,
      startTokenIssuer('k1'),
      startTokenIssuer('k2'),
      startTokenIssuer('k3', reviewOf),
    ]);
    await apply(bruges, 'app1', {
      issuer,
      apiServer: app1.url,
      caBundle: app1.ca,
      validation: { mode: 'jwks' },
    });
    await apply(bruges, 'live', {
      issuer,
      apiServer: live.url,
      caBundle: live.ca,
      validation: { mode: 'tokenreview' },
    });
    // Its API server does not look at it.
    const own = live.token({ sub: 'system:serviceaccount:kube-fed:hansa' });
    await bruges.must(['cluster', 'credential', 'set', 'live'], own);
    const made = await lubeck.must(
      'access token create reviewer --role token-reviewer -o json'.split(' '),
    );
    reviewer = (JSON.parse(made) as { readonly token: string }).token;
    await apply(lubeck, 'far', {
      issuer,
      peer: { trustDomain: 'bruges.example', cluster: 'app1' },
    });
    await apply(lubeck, 'asked', {
      issuer,
      peer: { trustDomain: 'bruges.example', cluster: 'live' },
      validation: { mode: 'tokenreview' },
    });
    const accepted = await lubeck.accept(await bruges.invite(['--for', 'lubeck.example']));
    assert.equal(accepted.code, 0, accepted.stderr);
    await bruges.until('lubeck.example', 'active');
    await lubeck.until('bruges.example', 'active');
  });
  after(() =>
    Promise.all([lubeck?.stop(), bruges?.stop(), app1?.stop(), other?.stop(), live?.stop()]),
  );

  function reviewOf({ url, body }: IssuerRequest) {
    if (url === '/version') return { status: 200 };
    if (url.endsWith('/selfsubjectaccessreviews')) {
      return { status: 201, body: { status: { allowed: true } } };
    }
    if (!url.endsWith('/tokenreviews')) return undefined;
    // A site asks in protobuf first.
    if (body === undefined) return { status: 415 };
    reviewed++;
    return said === undefined ? { status: 503 } : { status: 201, body: { ...body, status: said } };
  }

  async function apply(site: PeeringSite, name: string, spec: object): Promise<void> {
    const cluster = { apiVersion: 'hansa.dev/v1alpha1', kind: 'Cluster', metadata: { name }, spec };
    await site.must(['apply', '-f', '-'], JSON.stringify(cluster));
  }

  const ask = (token: string, audiences?: readonly string[], name = 'far'): Promise<Answer> =>
    call({
      host: 'localhost',
      path: `/clusters/${name}${reviews}`,
      authorization: `Bearer ${reviewer}`,
      body: review(token, 'v1', audiences),
      to: lubeck.daemon,
    });

  const token = (): string => app1.token({ aud: ['db'] });

  async function untilReviewed(accepts: boolean): Promise<Answer> {
    let answer: Answer | undefined;
    await until(
      async () => {
        answer = await ask(token(), ['db']);
        return accepts ? answer.body.status?.authenticated === true : answer.status === 503;
      },
      () => `a review answers ${JSON.stringify(answer?.body)}\n${lubeck.daemon.log().slice(-1500)}`,
    );
    return answer as Answer;
  }

  const grantTo = (peer: string, clusters: string): readonly string[] =>
    `grant create to-${peer} --peer ${peer} --cluster ${clusters} --identity spiffe://${peer}/hansa/site --any-network --any-address`.split(
      ' ',
    );

  const grant = (): Promise<string> => bruges.must(grantTo('lubeck.example', 'app1 live'));

  test('is not reviewed without a grant, and that is no denial', async () => {
    const { status, body } = await ask(token(), ['db']);
    assert.equal(status, 503, JSON.stringify(body));
    assert.match(body.message ?? '', /Cannot review a token of cluster far/);
    const shown = await lubeck.must(['cluster', 'show', 'far']);
    assert.match(shown, /bruges\.example does not grant its cluster app1 to this site/);
  });

  test('is reviewed under a grant, with a prefix for every name', async () => {
    await grant();
    const { status, body } = await untilReviewed(true);
    assert.equal(status, 201);
    assert.deepEqual(body.status?.user, {
      username: `${prefix}system:serviceaccount:shop:web`,
      uid: `${prefix}0f4bcb8d-24a1-4f7d-bb6a-0a4d6b1b9f0e`,
      groups: [
        `${prefix}system:serviceaccounts`,
        `${prefix}system:serviceaccounts:shop`,
        `${prefix}system:authenticated`,
      ],
      extra: {
        [`${prefix}authentication.kubernetes.io/credential-id`]: [
          'JTI=6c1c8c2e-31a4-4f38-8f0e-5a8a3f6c2d10',
        ],
        [`${prefix}authentication.kubernetes.io/pod-name`]: ['web-1'],
        [`${prefix}authentication.kubernetes.io/pod-uid`]: ['7f1d4bde-9f39-4f0e-8c47-8f9a1c1d2e3f'],
      },
    });
    const byHost = await call({
      host: 'api.far.kube-fed.svc.cluster.local',
      authorization: `Bearer ${reviewer}`,
      body: review(token(), 'v1', ['db']),
      to: lubeck.daemon,
    });
    assert.equal(byHost.body.status?.authenticated, true, JSON.stringify(byHost.body));
  });

  test('is reviewed for an explicit audience only', async () => {
    for (const audiences of [undefined, [], ['']]) {
      const { status, body } = await ask(app1.token(), audiences);
      assert.equal(status, 400, JSON.stringify(body));
      assert.match(body.message ?? '', /must name the audiences/);
    }
    const denied = await ask(token(), ['cache']);
    assert.equal(denied.status, 201);
    assert.match(denied.body.status?.error ?? '', /token audiences \["db"\] is invalid/);
    // Its API server would add its own audience to a token without one. Another site does not.
    const without = await ask(app1.token({ aud: undefined }), [issuer]);
    assert.equal(without.body.status?.authenticated, undefined);
  });

  test('denies tokens that its keys did not sign', async () => {
    const foreign = await ask(other.token({ aud: ['db'] }), ['db']);
    assert.equal(foreign.status, 201, JSON.stringify(foreign.body));
    assert.equal(foreign.body.status?.authenticated, undefined);
    assert.match(foreign.body.status?.error ?? '', /no keys found/);
    const masters = app1.token({ aud: ['db'], groups: ['system:masters'], sub: 'system:admin' });
    const { body } = await ask(masters, ['db']);
    const named = JSON.stringify(body.status?.user ?? {});
    assert.doesNotMatch(named, /"system:masters|"system:admin/);
  });

  test('authenticates nobody at this site, and not through version 1', async () => {
    const own = app1.token({ aud: ['hansa://lubeck.example'] });
    const asCaller = await call({
      host: 'localhost',
      path: `/clusters/far${reviews}`,
      authorization: `Bearer ${own}`,
      body: review(token(), 'v1', ['db']),
      to: lubeck.daemon,
    });
    assert.equal(asCaller.status, 401);
    const validated = await call({
      host: 'localhost',
      path: '/validate',
      authorization: `Bearer ${reviewer}`,
      body: { cluster: 'far', token: token() },
      to: lubeck.daemon,
    });
    assert.equal(validated.status, 403, JSON.stringify(validated.body));
    assert.match(validated.body.message ?? '', /cluster of a peer/);
  });

  test('cannot be granted on to a third site', async () => {
    await lubeck.must(grantTo('bruges.example', 'far'));
    await apply(bruges, 'back', {
      issuer,
      peer: { trustDomain: 'lubeck.example', cluster: 'far' },
    });
    let shown = '';
    await until(
      async () => {
        shown = await bruges.must(['cluster', 'show', 'back']);
        return /lubeck\.example does not grant its cluster far|has no cluster far of its own/.test(
          shown,
        );
      },
      () => shown,
    );
    const catalog = await bruges.must(['peer', 'catalog', 'lubeck.example', '-o', 'json']);
    assert.deepEqual((JSON.parse(catalog) as { readonly clusters: unknown }).clusters, []);
  });

  test('can be asked about each token, so a deleted Pod counts at once', async () => {
    const audiences = ['db'];
    said = { authenticated: true, user: web, audiences };
    let answer: Answer | undefined;
    await until(
      async () => {
        answer = await ask(live.token({ aud: audiences }), audiences, 'asked');
        return answer.body.status?.authenticated === true;
      },
      () => `a review answers ${JSON.stringify(answer?.body)}\n${lubeck.daemon.log().slice(-1500)}`,
    );
    const { username, groups } = answer?.body.status?.user ?? { username: '', groups: [] };
    assert.equal(username, 'live.bruges.example:system:serviceaccount:shop:web');
    assert.ok(groups.every((group) => group.startsWith('live.bruges.example:')));
    said = { error: 'the Pod is gone' };
    const gone = await ask(live.token({ aud: audiences }), audiences, 'asked');
    assert.deepEqual([gone.status, gone.body.status?.error], [201, 'the Pod is gone']);
    const sofar = reviewed;
    const unsigned = await ask(other.token({ aud: audiences }), audiences, 'asked');
    assert.equal(unsigned.body.status?.authenticated, undefined);
    assert.equal(reviewed, sofar, 'a token of another cluster reached the API server');
  });

  test('does not answer for its API server, and "could not check" stays that', async () => {
    const audiences = ['db'];
    const bound = live.token({ aud: audiences });
    said = {
      authenticated: true,
      user: { ...web, groups: [...web.groups, 'system:masters'] },
      audiences,
    };
    assert.equal((await ask(bound, audiences, 'asked')).status, 503);
    said = undefined;
    assert.equal((await ask(bound, audiences, 'asked')).status, 503);
    said = { authenticated: true, user: web, audiences };
    await until(async () => (await ask(bound, audiences, 'asked')).status === 201);
  });

  test('ends with the grant, and returns with it', async () => {
    await bruges.must(['grant', 'delete', 'to-lubeck.example']);
    await untilReviewed(false);
    await grant();
    await untilReviewed(true);
  });

  test('ends at once while this site suspends the peer', async () => {
    await lubeck.must(['peer', 'suspend', 'bruges.example']);
    assert.equal((await ask(token(), ['db'])).status, 503);
    await until(
      async () =>
        /enforced by .*token-reviews since/.test(
          await lubeck.must(['peer', 'show', 'bruges.example']),
        ),
      'the status of the peer to name this place',
    );
    await lubeck.must(['peer', 'resume', 'bruges.example']);
    await untilReviewed(true);
  });

  test('ends while the peer suspends this site', async () => {
    await bruges.must(['peer', 'suspend', 'lubeck.example']);
    await untilReviewed(false);
    await bruges.must(['peer', 'resume', 'lubeck.example']);
    await untilReviewed(true);
  });

  test('is reviewed while the peer is dark, also after a restart', async () => {
    await bruges.stop('SIGKILL');
    const asked = await ask(live.token({ aud: ['db'] }), ['db'], 'asked');
    assert.equal(asked.status, 503, JSON.stringify(asked.body));
    assert.equal((await ask(token(), ['db'])).body.status?.authenticated, true);
    await lubeck.stop();
    await lubeck.start();
    await untilReviewed(true);
    // Whether the peer has a key that this site does not know is an open question then.
    assert.equal((await ask(other.token({ aud: ['db'] }), ['db'])).status, 503);
    await bruges.start();
    await lubeck.until('bruges.example', 'active');
  });

  test('ends for good when the peer is revoked', async () => {
    await untilReviewed(true);
    await lubeck.must(['peer', 'revoke', 'bruges.example']);
    const { status, body } = await ask(token(), ['db']);
    assert.equal(status, 503, JSON.stringify(body));
  });
});
