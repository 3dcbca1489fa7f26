// Test fixture: Clusters on the write path of the API, with their credentials and an API server that
// answers from a table.

import type { TestContext } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { Condition, Resource } from '../../api/object.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeRequest, KubeResponse } from '../../core/kube/kube-client.ts';
import type { ClusterCredentials } from '../../core/kube/credentials/cluster-credentials.ts';
import { claimsOf } from '../../core/kube/credentials/token-claims.ts';
import {
  apiServer,
  credentialScene,
  tokenOf,
  type WrittenSpec,
} from '../../core/kube/credentials/test-credentials.ts';
import { KubeVerbs } from '../../core/kube/kube-verbs.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import type { Controller, ReconcileResult } from '../../core/reconcile/controller.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter, type WriteContext } from '../../server/resources/writer.ts';
import { accompanyCluster } from './accompany-cluster.ts';
import { silentLog } from '../../core/log/test-log.ts';

type Answer = (
  request: KubeRequest,
  token: string,
) => { status: number; body?: unknown; headers?: Record<string, string> };

/** An API server of one ServiceAccount. `answer` replaces what it says. */
export class FakeApiServer {
  readonly requests: { readonly method: string; readonly path: string; readonly token: string }[] =
    [];
  readonly revoked = new Set<string>();
  /** The longest life that it grants. */
  maxLifeMs = Number.POSITIVE_INFINITY;
  isDown = false;
  answer: Answer | undefined;
  readonly now: () => number;

  constructor(now: () => number) {
    this.now = now;
  }

  handle(request: KubeRequest, token: string): KubeResponse {
    if (this.isDown)
      throw new HansaError('HANSA_UNREACHABLE', `Cannot reach ${apiServer}: refused.`);
    this.requests.push({ method: request.method, path: request.path, token });
    const {
      status,
      body = {},
      headers = {},
    } = this.answer?.(request, token) ?? this.#usual(request, token);
    return { status, headers, body: Buffer.from(JSON.stringify(body)) };
  }

  get renewals(): number {
    return this.requests.filter(({ path }) => path.endsWith('/token')).length;
  }

  #usual(request: KubeRequest, token: string): ReturnType<Answer> {
    const expiresAtMs = claimsOf(token)?.expiresAtMs ?? Number.POSITIVE_INFINITY;
    if (this.revoked.has(token) || expiresAtMs <= this.now()) return { status: 401 };
    if (request.path === '/version') return { status: 200 };
    if (!request.path.endsWith('/serviceaccounts/hansa/token')) return { status: 403 };
    const { expirationSeconds } = (request.body as { spec: { expirationSeconds: number } }).spec;
    const lifeMs = Math.min(expirationSeconds * 1000, this.maxLifeMs);
    return { status: 201, body: { status: { token: tokenOf(this.now(), lifeMs) } } };
  }
}

/** Asks the source for each request, and tells it of 401, as the real client does. */
class FakeClient extends KubeVerbs {
  readonly #credentials: ClusterCredentials;
  readonly #cluster: () => Promise<Cluster | undefined>;
  readonly #server: FakeApiServer;

  constructor(
    credentials: ClusterCredentials,
    cluster: () => Promise<Cluster | undefined>,
    server: FakeApiServer,
  ) {
    super('app1.example');
    this.#credentials = credentials;
    this.#cluster = cluster;
    this.#server = server;
  }

  async request(request: KubeRequest): Promise<KubeResponse> {
    const source = this.#credentials.sourceOf((await this.#cluster()) as Cluster);
    const credential = await source.current();
    const token = credential.type === 'token' ? credential.token : credential.type;
    const response = this.#server.handle(request, token);
    if (response.status === 401) source.refused(credential);
    return response;
  }

  stream(): never {
    throw new Error('not here');
  }

  close(): void {}
}

export async function credentialSite(t: TestContext) {
  const scene = await credentialScene(t);
  const { clock, store, random, credentials } = scene;
  const records: AuditDraft[] = [];
  const record = (draft: AuditDraft) => {
    records.push(draft);
    return { encode: () => Buffer.from('{}') };
  };
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: () => [],
    accompany: (kind, next, live) =>
      kind === (clusterKind as Kind) ? accompanyCluster(next as never, live as never) : undefined,
    auditRow: auditWrites({ record }),
  });
  const resources = <R extends Resource>(kind: Kind) =>
    resourceClient<R>(kind, { store, writer, clock });
  const client = resources<Cluster>(clusterKind);
  const server = new FakeApiServer(() => clock.now());
  const context: WriteContext = {
    caller: socketOwner,
    verb: 'create',
    options: { dryRun: false, manager: 'test', fieldValidation: 'Ignore', force: false },
    requestId: '',
    address: undefined,
  };
  const cluster = (): Promise<Cluster | undefined> => client.get('app1');
  /** Ids of keys with which the cluster stopped signing. */
  const superseded = new Set<string>();
  return {
    superseded,
    isSuperseded: (_cluster: object, keyId: string): boolean => superseded.has(keyId),
    ...scene,
    records,
    metrics: new MetricsRegistry(),
    audit: { record, deny: () => undefined, later: record },
    resources,
    writer,
    context,
    client,
    server,
    cluster,
    create: (spec: WrittenSpec = { apiServer }): Promise<Cluster> =>
      client.create(
        {
          name: 'app1',
          spec: { issuer: 'https://kubernetes.default.svc', ...spec } as unknown as Cluster['spec'],
        },
        { controller: 'test' },
      ),
    condition: async (type: string): Promise<Condition | undefined> =>
      findCondition((await cluster())?.status?.conditions, type),
    /** As the directory gives it. */
    clientOf: () => new FakeClient(credentials, cluster, server),
    run: (controller: Controller): Promise<ReconcileResult | undefined> =>
      controller.reconcile('app1', {
        signal: new AbortController().signal,
        epoch: undefined,
        log: silentLog,
      }),
  };
}
