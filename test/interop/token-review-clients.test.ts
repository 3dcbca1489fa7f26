// Stock clients ask a real site for TokenReviews about a cluster with a real kube-apiserver: client-go in
// both encodings and versions, and curl by host, by path and by TLS server name. The answers are those of
// that kube-apiserver.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { execute } from '../e2e/daemon.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import {
  account,
  CredentialsDir,
  hostOf,
  namespace,
  registerCluster,
  type ReviewCluster,
  reviewOf,
  type ReviewStatus,
  reviewsPath,
  startReviewCluster,
} from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools, requireTool } from './tool.ts';

const skip =
  (await missingTools('etcd', 'kube-apiserver', 'token-review')) ||
  (spawnSync('curl', ['--version']).error === undefined ? false : 'there is no curl on the PATH');

interface Question {
  readonly token: string;
  readonly audiences?: readonly string[];
}

interface Answer {
  readonly status: number;
  readonly review?: { readonly spec: object; readonly status: ReviewStatus };
  readonly error?: string;
}

suite('stock clients', { skip }, () => {
  let folder: string;
  let cluster: ReviewCluster;
  let site: Site;
  let program: string;
  /** Files that the clients read. */
  let files: Record<'siteCa' | 'kubeCa' | 'siteToken' | 'kubeToken', string>;

  const file = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-clients-'));
    program = await requireTool('token-review');
    const credentials = new CredentialsDir(folder);
    cluster = await startReviewCluster();
    site = await startSite({ flags: [`--auth-credentials-dir=${credentials.path}`] });
    const spec = credentials.specFor('app1', cluster.kube);
    await registerCluster(site.client, 'app1', { ...spec, local: true });
    await registerCluster(site.client, 'by-keys', { ...spec, validation: { mode: 'jwks' } });
    files = {
      siteCa: file('site-ca.pem', site.ca),
      kubeCa: file('kube-ca.pem', cluster.kube.ca),
      siteToken: file('site-token', await tokenReviewer('clients')),
      kubeToken: file('kube-token', cluster.kube.token),
    };
  });
  after(async () => {
    await site?.stop();
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A token of the site that may ask for reviews and nothing else. */
  const tokenReviewer = async (name: string, role = 'token-reviewer'): Promise<string> => {
    const body = JSON.stringify({ name, role });
    const { text } = await site.client.send({ method: 'POST', path: '/hansa/v1/tokens', body });
    return (JSON.parse(text) as { readonly token: string }).token;
  };

  const address = (url: string): string => new URL(url).host;
  const portOf = (url: string): string => new URL(url).port;

  const clientGo = async (
    args: readonly string[],
    questions: readonly (Question & { readonly version: string; readonly encoding: string })[],
  ): Promise<readonly Answer[]> => {
    const input = questions.map((question) => `${JSON.stringify(question)}\n`).join('');
    const { code, stdout, stderr } = await execute(program, args, { stdin: input });
    assert.equal(code, 0, stderr);
    const lines = stdout.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line) as Answer);
  };
  const atSite = (host = hostOf('app1'), caller = files.siteToken): readonly string[] => [
    `--server=https://${host}`,
    `--address=${address(site.url)}`,
    `--ca=${files.siteCa}`,
    `--token=${caller}`,
  ];
  const atKube = (): readonly string[] => [
    `--server=${cluster.kube.url}`,
    `--ca=${files.kubeCa}`,
    `--token=${files.kubeToken}`,
  ];

  const tampered = (token: string): string =>
    token.slice(0, -8) + (token.endsWith('AAAAAAAA') ? 'BBBBBBBB' : 'AAAAAAAA');

  const questions = async (): Promise<Readonly<Record<string, Question>>> => {
    const several = await cluster.token({ audiences: ['a', 'b', serviceAccountIssuer] });
    return {
      'a valid token': { token: await cluster.token() },
      'a token for another audience': { token: await cluster.token({ audiences: ['vault'] }) },
      'a token for the asked audience': {
        token: await cluster.token({ audiences: ['vault'] }),
        audiences: ['vault', 'other'],
      },
      'a token for several audiences': { token: several, audiences: ['b', 'c', 'a'] },
      'a tampered token': { token: tampered(await cluster.token()) },
      garbage: { token: 'garbage' },
      'no token': { token: '' },
    };
  };

  for (const encoding of ['json', 'protobuf']) {
    test(`client-go gets the answers of kube-apiserver in ${encoding}`, async () => {
      const asked = Object.entries(await questions());
      const v1 = asked.map(([, question]) => ({ ...question, version: 'v1', encoding }));
      const expected = await clientGo(atKube(), v1);
      const found = await clientGo(atSite(), v1);
      const named = (answers: readonly Answer[]) =>
        answers.map(({ review, ...rest }, index) => ({
          case: asked[index]?.[0],
          ...rest,
          spec: review?.spec,
          status: review?.status ?? rest.status,
        }));
      assert.deepEqual(named(found), named(expected));
      // What the comparison is worth: both kinds of answers and an error occurred.
      assert.equal(expected[0]?.review?.status.authenticated, true);
      assert.equal(expected[4]?.review?.status.authenticated ?? false, false);
      assert.equal(expected.at(-1)?.status, 400);
    });

    test(`client-go gets the same answers in v1beta1 and ${encoding}`, async () => {
      const asked = Object.values(await questions());
      const by = (version: string) => asked.map((one) => ({ ...one, version, encoding }));
      const statuses = (answers: readonly Answer[]) =>
        answers.map(({ status, error, review }) => ({ status, error, review: review?.status }));
      const expected = statuses(await clientGo(atSite(), by('v1')));
      assert.deepEqual(statuses(await clientGo(atSite(), by('v1beta1'))), expected);
      assert.equal(expected[0]?.review?.authenticated, true);
    });
  }

  test('client-go verifies the certificate of each host name', async () => {
    const [asked] = [{ token: await cluster.token(), version: 'v1', encoding: 'json' }];
    for (const host of [
      hostOf('app1'),
      'api.app1.kube-fed.svc',
      'api.kube-fed.svc.cluster.local',
    ]) {
      const [answer] = await clientGo(atSite(host), [asked]);
      assert.equal(answer?.review?.status.authenticated, true, `${host}: ${answer?.error}`);
    }
    const [answer] = await clientGo(atSite('api.stranger.kube-fed.svc.cluster.local'), [asked]);
    assert.match(answer?.error ?? '', /certificate is valid for .*, not api\.stranger\./);
  });

  test('client-go authenticates with a ServiceAccount token for the audience of the site', async () => {
    const asked = { token: await cluster.token(), version: 'v1', encoding: 'protobuf' };
    const own = file('own-token', await cluster.token({ audiences: ['hansa://lubeck.example'] }));
    const [denied] = await clientGo(atSite(undefined, own), [asked]);
    assert.equal(denied?.status, 403, denied?.error);
    await site.client.send({
      method: 'POST',
      path: '/apis/hansa.dev/v1alpha1/rolebindings',
      body: JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'RoleBinding',
        metadata: { name: 'web-reviews' },
        spec: {
          role: 'token-reviewer',
          subjects: [{ kind: 'User', name: `serviceaccount:app1:${namespace}:${account}` }],
        },
      }),
    });
    const [granted] = await clientGo(atSite(undefined, own), [asked]);
    assert.equal(granted?.review?.status.authenticated, true, granted?.error);
    // One for the audience of its API server could be used there.
    const other = file('api-token', await cluster.token());
    const [notAccepted] = await clientGo(atSite(undefined, other), [asked]);
    assert.equal(notAccepted?.status, 401, notAccepted?.error);
  });

  test('client-go without rights is refused before its question counts', async () => {
    const asked = { token: 'garbage', version: 'v1', encoding: 'json' };
    const reader = file('reader-token', await tokenReviewer('reader', 'viewer'));
    const [forbidden] = await clientGo(atSite(undefined, reader), [asked]);
    assert.equal(forbidden?.status, 403, forbidden?.error);
    const stranger = file('stranger-token', 'stranger');
    const [unknown] = await clientGo(atSite(undefined, stranger), [asked]);
    assert.equal(unknown?.status, 401, unknown?.error);
  });

  interface Curled {
    readonly code: number;
    readonly status: number;
    readonly text: string;
  }
  const curl = async (url: string, args: readonly string[], body: string): Promise<Curled> => {
    const caller = await tokenReviewer(`curl-${(curls += 1)}`);
    const { code, stdout } = await execute(
      'curl',
      [
        '--silent',
        '--show-error',
        '--http1.1',
        '--cacert',
        files.siteCa,
        '--header',
        `Authorization: Bearer ${caller}`,
        '--header',
        'Content-Type: application/json',
        '--write-out',
        '\n%{http_code}',
        '--data-binary',
        '@-',
        ...args,
        url,
      ],
      { stdin: body },
    );
    const end = stdout.lastIndexOf('\n');
    return { code, status: Number(stdout.slice(end + 1)), text: stdout.slice(0, end) };
  };
  let curls = 0;
  const connectTo = (): readonly string[] => ['--connect-to', `::${address(site.url)}`];

  const ways: Readonly<Record<string, () => readonly [url: string, args: readonly string[]]>> = {
    'by host name, which is the server name too': () => [
      `https://${hostOf('app1')}${reviewsPath}`,
      connectTo(),
    ],
    'by the short host name': () => [`https://api.app1.kube-fed.svc${reviewsPath}`, connectTo()],
    'by host name with a port and in upper case': () => [
      `https://localhost:${portOf(site.url)}${reviewsPath}`,
      ['--header', `Host: ${hostOf('app1').toUpperCase()}:8443`],
    ],
    'by the Host header at the address of the site': () => [
      `${site.url}${reviewsPath}`,
      ['--header', `Host: ${hostOf('app1')}`],
    ],
    'by the path': () => [`${site.url}/clusters/app1${reviewsPath}`, []],
    'by the server name, the Host being an address': () => [
      `https://${hostOf('app1')}${reviewsPath}`,
      [...connectTo(), '--header', `Host: ${address(site.url)}`],
    ],
    'as the local cluster': () => [
      `https://api.kube-fed.svc.cluster.local${reviewsPath}`,
      connectTo(),
    ],
  };
  for (const [way, how] of Object.entries(ways)) {
    test(`curl asks ${way}`, async () => {
      const token = await cluster.token();
      const { code, status, text } = await curl(...how(), reviewOf(token));
      assert.deepEqual({ code, status }, { code: 0, status: 201 }, text);
      const review = JSON.parse(text) as { readonly status: ReviewStatus };
      assert.equal(review.status.authenticated, true, text);
      assert.equal(
        review.status.user?.username,
        `system:serviceaccount:${namespace}:${account}`,
        text,
      );
    });
  }

  const refused: Readonly<Record<string, () => readonly [url: string, args: readonly string[]]>> = {
    'at the address of the site, without a cluster': () => [`${site.url}${reviewsPath}`, []],
    'about a cluster that is not registered': () => [
      `${site.url}${reviewsPath}`,
      ['--header', `Host: ${hostOf('stranger')}`],
    ],
    'with a host that only looks like one': () => [
      `${site.url}${reviewsPath}`,
      ['--header', `Host: ${hostOf('app1')}.example`],
    ],
    'with a path and a host that name different clusters': () => [
      `${site.url}/clusters/app1${reviewsPath}`,
      ['--header', `Host: ${hostOf('by-keys')}`],
    ],
    'with a server name and a host that name different clusters': () => [
      `https://${hostOf('app1')}${reviewsPath}`,
      [...connectTo(), '--header', `Host: ${hostOf('by-keys')}`],
    ],
  };
  for (const [way, how] of Object.entries(refused)) {
    test(`curl is refused ${way}`, async () => {
      const { code, status, text } = await curl(...how(), reviewOf(await cluster.token()));
      assert.equal(code, 0, text);
      assert.ok(status >= 400 && status < 500, `${status} ${text}`);
      assert.doesNotMatch(text, /authenticated/);
    });
  }
});
