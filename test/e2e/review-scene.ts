// A site with two clusters and callers of several kinds, for the end-to-end tests of token reviews.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request as requestHttps } from 'node:https';
import { join } from 'node:path';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { issuer, startTokenIssuer, type TokenIssuer } from './token-issuer.ts';
import { until } from './until.ts';

export const folder = temporaryFolder();
export const dataDir = join(folder, 'lubeck');
const credentialsDir = join(folder, 'credentials');
export const base = 'kube-fed.svc.cluster.local';
export const reviews = '/apis/authentication.k8s.io/v1/tokenreviews';

export const tokens = new Map<string, string>();

export interface Call {
  readonly host?: string | readonly string[];
  /** SNI; the host without its port where undefined. */
  readonly serverName?: string;
  readonly path?: string;
  readonly method?: string;
  readonly as?: string;
  readonly authorization?: string;
  readonly certificate?: { readonly cert: Buffer; readonly key: Buffer };
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Of another daemon. */
  readonly to?: Daemon;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: {
    readonly reason?: string;
    readonly message?: string;
    readonly error?: string;
    readonly apiVersion?: string;
    readonly cluster?: string;
    readonly sub?: string;
    readonly clusters?: readonly { readonly name: string }[];
    readonly status?: {
      readonly authenticated?: boolean;
      readonly error?: string;
      readonly user?: {
        readonly username: string;
        readonly uid: string;
        readonly groups: readonly string[];
      };
    };
  };
}

export function review(token: string, version = 'v1', audiences?: readonly string[]): unknown {
  return {
    apiVersion: `authentication.k8s.io/${version}`,
    kind: 'TokenReview',
    spec: { token, ...(audiences && { audiences }) },
  };
}

/** Over HTTP/1.1, with the certificate of the server name verified. */
export function call(options: Call): Promise<Answer> {
  const { host = `api.app1.${base}`, path = reviews, method = 'POST', to = scene.daemon } = options;
  const first = String(typeof host === 'string' ? host : host[0]);
  const serverName = options.serverName ?? first.toLowerCase().replace(/\.?(:\d+)?$/, '');
  const token = options.as === undefined ? undefined : tokens.get(options.as);
  const authorization = options.authorization ?? (token && `Bearer ${token}`);
  const url = new URL(to.endpoints.api);
  return new Promise((resolve, reject) => {
    const sent = requestHttps({
      hostname: url.hostname,
      port: url.port,
      method,
      path,
      agent: false,
      ca: readFileSync(join(to.dataDir, 'ca.pem')),
      servername: serverName,
      headers: {
        host: host as string,
        ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
        ...(authorization && { authorization }),
        ...options.headers,
      },
      ...options.certificate,
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('end', () => {
        const isJson = String(response.headers['content-type']).includes('json');
        const body = (isJson ? JSON.parse(text) : {}) as Answer['body'];
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
      });
    });
    sent.end(options.body === undefined ? undefined : JSON.stringify(options.body));
  });
}

export const site = (...args: readonly string[]) => hansa([...args, '--data-dir', dataDir]);

export async function apply(manifest: object): Promise<void> {
  const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', dataDir], {
    stdin: JSON.stringify(manifest),
  });
  assert.equal(code, 0, stderr);
}

export function clusterManifest(name: string, from: TokenIssuer, spec: object = {}): object {
  return {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Cluster',
    metadata: { name },
    spec: {
      issuer,
      apiServer: from.url,
      caBundle: from.ca,
      validation: { mode: 'jwks' },
      ...spec,
    },
  };
}

export function bindingManifest(name: string, role: string, kind: string, subject: string): object {
  return {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'RoleBinding',
    metadata: { name },
    spec: { role, subjects: [{ kind, name: subject }] },
  };
}

async function makeToken(name: string, role: string): Promise<void> {
  const made = await site('access', 'token', 'create', name, '--role', role, '-o', 'json');
  assert.equal(made.code, 0, made.stderr);
  tokens.set(name, (JSON.parse(made.stdout) as { token: string }).token);
}

/** The keys of a new cluster arrive a moment later. */
async function untilReviewed(name: string, token: string, to = scene.daemon): Promise<void> {
  const path = `/clusters/${name}${reviews}`;
  let last: Answer | undefined;
  await until(
    async () => {
      last = await call({ host: 'localhost', path, as: 'reviewer', body: review(token), to });
      return last.status === 201 && last.body.status?.authenticated === true;
    },
    () => `reviews of ${name} answer ${JSON.stringify(last?.body)}\n${to.log().slice(-2000)}`,
  );
}

export interface ReviewScene {
  readonly daemon: Daemon;
  readonly app1: TokenIssuer;
  readonly app2: TokenIssuer;
}

let scene: ReviewScene;

/** The cluster app1 is the local one. app2 accepts callers with tokens for its API server, and has a webhook authenticator. */
export async function startReviewScene(): Promise<ReviewScene> {
  const [app1, app2] = await Promise.all([startTokenIssuer('k1'), startTokenIssuer('k2')]);
  const daemon = await startDaemon(dataDir, ['--auth-credentials-dir', credentialsDir]);
  scene = { daemon, app1, app2 };
  await makeToken('reviewer', 'token-reviewer');
  await makeToken('viewer', 'viewer');
  await apply({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Role',
    metadata: { name: 'review-app2' },
    spec: {
      rules: [
        { kinds: ['Cluster'], verbs: ['create'], subresources: ['tokenreviews'], names: ['app2'] },
      ],
    },
  });
  await makeToken('app2-only', 'review-app2');
  await makeToken('kube', 'token-reviewer');
  await apply(clusterManifest('app1', app1, { local: true }));
  await apply(
    clusterManifest('app2', app2, {
      callers: {
        acceptAPIServerAudience: true,
        webhookAuthenticators: [{ caller: 'token:kube', prefix: 'app2:' }],
      },
    }),
  );
  await untilReviewed('app1', app1.token());
  await untilReviewed('app2', app2.token());
  return scene;
}

export async function stopReviewScene(): Promise<void> {
  await scene.daemon.signal('SIGTERM');
  await Promise.all([scene.app1.stop(), scene.app2.stop()]);
}
