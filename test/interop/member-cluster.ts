// A kube-apiserver with all objects of `leagueManifests` for two sites, and requests of a site, of an
// administrator and of other users to it.

import assert from 'node:assert/strict';
import { systemClock } from '../../src/core/clock/system.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import type { KubeClient, KubeRequest } from '../../src/core/kube/kube-client.ts';
import { siteUser } from '../../src/core/kube/manifests/manifest.ts';
import { requestToken } from '../../src/core/kube/registration/account-token.ts';
import { leagueManifests } from '../../src/kubernetes/manifests/league-manifests.ts';
import { until } from '../e2e/until.ts';
import { olderApiserver, olderVersionVariable } from '../tools/build.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';

export const systemNamespace = 'hansa-system';
/** The ServiceAccount of the first site. */
export const siteAccount = `system:serviceaccount:${systemNamespace}:hansa`;
/** The second site, which authenticates with its JWT-SVID. */
export const secondSite = siteUser('bruges.example');
/** The Secret that `Federation` of this cluster names. */
export const namedSecret = 'app2';

/** `make compat` names an older version of Kubernetes. */
const older = process.env[olderVersionVariable];
/** For `startKubeApiserver`. */
export const apiserverOptions = older === undefined ? {} : { program: olderApiserver(older) };
/** ValidatingAdmissionPolicies are general since 1.30. */
const hasPolicies = older === undefined || Number(older.split('.')[1]) >= 30;

/** For `skip`. */
export const withoutPolicies = hasPolicies
  ? false
  : `Kubernetes ${older} has no general admission policies: the checks of FencedWriter and of controllers replace them`;

/** Who sends a request: the site with its token, the administrator, or any user by impersonation. */
export type Sender = 'site' | 'admin' | { readonly user: string };

export interface Answer {
  readonly status: number;
  /** Of a Status. */
  readonly message: string;
  readonly object: Json;
}

/** An object of Kubernetes, with the fields that tests read or change. */
export interface Json {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly [field: string]: unknown;
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

export class MemberCluster {
  readonly kube: KubeApiserver;
  readonly kubectl: Kubectl;
  readonly site: HttpKubeClient;
  readonly admin: HttpKubeClient;

  private constructor(
    kube: KubeApiserver,
    kubectl: Kubectl,
    site: HttpKubeClient,
    admin: HttpKubeClient,
  ) {
    this.kube = kube;
    this.kubectl = kubectl;
    this.site = site;
    this.admin = admin;
  }

  static async start(): Promise<MemberCluster> {
    const kube = await startKubeApiserver([], apiserverOptions);
    const kubectl = await Kubectl.with(kube.kubeconfig);
    try {
      const admin = clientWith(kube, kube.token);
      await install(kubectl, admin);
      const { token } = await requestToken(admin, { namespace: systemNamespace, name: 'hansa' });
      return new MemberCluster(kube, kubectl, clientWith(kube, token), admin);
    } catch (error) {
      await kubectl.close();
      await kube.stop({ keepLogs: true });
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.site.close();
    this.admin.close();
    await this.kubectl.close();
    await this.kube.stop();
  }

  async send(
    by: Sender,
    method: KubeRequest['method'],
    path: string,
    body?: unknown,
    query: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    const client: KubeClient = by === 'site' ? this.site : this.admin;
    const headers = typeof by === 'string' ? {} : { 'impersonate-user': by.user };
    const answer = await client.request({
      method,
      path,
      query,
      headers,
      ...(body === undefined ? {} : { body }),
      ...(method === 'PATCH' ? { contentType: 'application/merge-patch+json' } : {}),
    });
    const object = JSON.parse(answer.body.toString('utf8')) as Json;
    return {
      status: answer.status,
      message: typeof object['message'] === 'string' ? object['message'] : '',
      object,
    };
  }

  async accepts(
    by: Sender,
    method: KubeRequest['method'],
    path: string,
    body?: unknown,
    query: Readonly<Record<string, string>> = {},
  ): Promise<Json> {
    const { status, message, object } = await this.send(by, method, path, body, query);
    assert.ok(status < 300, `${method} ${path}: ${status} ${message}`);
    return object;
  }

  /** By a policy, or by the rules of a CRD. */
  async refuses(
    by: Sender,
    method: KubeRequest['method'],
    path: string,
    body: unknown,
    why: RegExp,
    query: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const { status, message } = await this.send(by, method, path, body, query);
    assert.equal(status, 422, `${method} ${path}: ${status} ${message}`);
    assert.match(message, why);
  }

  /** A policy acts some time after it is created. The request must change nothing while it does not. */
  async untilRefused(
    policy: string,
    by: Sender,
    method: KubeRequest['method'],
    path: string,
    body?: unknown,
  ): Promise<void> {
    let last = '';
    await until(
      async () => {
        const { status, message } = await this.send(by, method, path, body, { dryRun: 'All' });
        last = `${status} ${message}`;
        return status === 422 && message.includes(`'${policy}'`);
      },
      () => `${policy} does not refuse ${method} ${path}: ${last}`,
    );
  }
}

function clientWith({ url, ca }: KubeApiserver, token: string): HttpKubeClient {
  return new HttpKubeClient({
    endpoint: { server: new URL(url), caBundle: ca },
    credentials: { current: () => ({ type: 'token', token }) },
    clock: systemClock,
  });
}

/** As an administrator does: each site's manifests with kubectl. */
async function install(kubectl: Kubectl, admin: KubeClient): Promise<void> {
  const sites = [
    leagueManifests({
      trustDomain: 'lubeck.example',
      subject: { kind: 'ServiceAccount' },
      home: { secrets: [namedSecret] },
      policies: hasPolicies,
    }),
    leagueManifests({
      trustDomain: 'bruges.example',
      subject: { kind: 'User', name: secondSite },
      policies: hasPolicies,
    }),
  ];
  for (const items of sites) {
    const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    await kubectl.ok(['apply', '--server-side', '-f', '-'], { input: list });
  }
  for (const plural of ['clusterclaims', 'federations', 'nativeservices']) {
    const path = `/apis/clusters.hansa.dev/v1alpha1/${plural}`;
    await until(
      async () => (await admin.request({ method: 'GET', path })).status === 200,
      `${plural} are not served`,
    );
  }
}
