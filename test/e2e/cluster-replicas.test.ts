// Two replicas of a site with Clusters: two auth planes with a store each, over one database. Each knows what
// the other did.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import type { Kind } from '../../src/api/kind.ts';
import { type Cluster, clusterKind } from '../../src/api/kinds/cluster.ts';
import type { Resource } from '../../src/api/object.ts';
import { jsonEquals } from '../../src/api/schema/json.ts';
import { startAuth } from '../../src/auth/start.ts';
import { socketOwner } from '../../src/core/access/identity.ts';
import { noteSigner } from '../../src/core/audit/note.ts';
import { Audit } from '../../src/core/audit/log.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { HansaError, hasCode } from '../../src/core/errors/error.ts';
import { testSite } from '../../src/core/identity/authority/test-vault.ts';
import { ClusterCredentials } from '../../src/core/kube/credentials/cluster-credentials.ts';
import { silentLog } from '../../src/core/log/test-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { EnforcementPoints } from '../../src/core/plane/enforcement.ts';
import type { PlaneContext, RunningPlane } from '../../src/core/plane/plane.ts';
import { callRoute } from '../../src/core/plane/test-request.ts';
import { LeaseLeadership } from '../../src/core/reconcile/lease-leadership.ts';
import type { ResourceClient } from '../../src/core/reconcile/resource-client.ts';
import { ReconcileRuntime } from '../../src/core/reconcile/runtime.ts';
import { MemoryDatabase } from '../../src/core/store/memory/driver.ts';
import { openStore } from '../../src/core/store/open.ts';
import { createSealer } from '../../src/core/store/sealing/sealer.ts';
import { auditWrites } from '../../src/server/audit/audit-writes.ts';
import { resourceClient } from '../../src/server/resources/resource-client.ts';
import { ResourceWriter } from '../../src/server/resources/writer.ts';
import { issuer, startTokenIssuer, type TokenIssuer } from './token-issuer.ts';
import { until } from './until.ts';

const clock = systemClock;
const random = systemRandom;
const log = silentLog;
const settings = {
  baseDomain: 'kube-fed.svc.cluster.local',
  credentialsDir: undefined,
  inClusterDir: '/nowhere',
  audience: undefined,
  anonymous: false,
  callerReviewsPerSecond: 0,
  clusterReviewsPerSecond: 0,
  validateV1: true,
  verdictCacheBytes: 1024 * 1024,
};
/** Of the audit log, which the replicas share. */
const { privateKey } = generateKeyPairSync('ed25519');
const credentialPath = '/hansa/v1/clusters/{name}/credential';
const reviewPath = '/clusters/{cluster}/apis/authentication.k8s.io/v1/tokenreviews';

type Answer = 'authenticated' | 'denied' | 'unknown' | 'unchecked';

class Replica {
  readonly #plane: RunningPlane;
  readonly #runtime: ReconcileRuntime;
  readonly #store: PlaneContext['store'];
  readonly clusters: ResourceClient<Cluster>;

  private constructor(context: PlaneContext, plane: RunningPlane, runtime: ReconcileRuntime) {
    this.#plane = plane;
    this.#runtime = runtime;
    this.#store = context.store;
    this.clusters = context.resources<Cluster>(clusterKind);
  }

  static async start(
    t: TestContext,
    name: string,
    database: MemoryDatabase,
    { authority }: Awaited<ReturnType<typeof testSite>>,
  ): Promise<Replica> {
    const { trustDomain } = authority;
    const metrics = new MetricsRegistry();
    const store = await openStore({ driver: 'memory', database }, { clock });
    const signer = noteSigner(trustDomain.name, privateKey);
    const audit = new Audit({ store, clock, signer, log, metrics });
    let plane: RunningPlane | undefined;
    const writer = new ResourceWriter({
      store,
      clock,
      random,
      auditRow: auditWrites(audit),
      admit: (_caller, kind, next, live, warn = () => undefined) =>
        next === undefined || (live !== undefined && jsonEquals(next.spec, live.spec))
          ? []
          : (plane?.admit?.(kind, resourceOf(next), live && resourceOf(live), warn) ?? []),
      accompany: (kind, next, live, by) =>
        plane?.accompany?.(kind, next && resourceOf(next), live && resourceOf(live), by),
    });
    const context = {
      trustDomain,
      version: 'test',
      store,
      clock,
      random,
      log,
      metrics,
      audit,
      sealer: createSealer(Buffer.alloc(32, 7), random),
      authority,
      transport: {
        connect: () =>
          Promise.reject(new HansaError('HANSA_UNREACHABLE', 'The issuer is out of reach.')),
      },
      enforcement: new EnforcementPoints(),
      advertiseURL: () => 'https://localhost:1',
      jwtIssuer: () => undefined,
      resources: <R extends Resource>(kind: Kind) =>
        resourceClient<R>(kind, { store, writer, clock }),
    } as unknown as PlaneContext;
    const running = await startAuth(context, settings);
    plane = running;
    const leases = { leases: store.leases, holder: name, durationMs: 10_000 };
    const leadership = new LeaseLeadership({ ...leases, clock, random, log });
    const runtime = new ReconcileRuntime({ clock, random, log, metrics, leadership });
    for (const controller of running.controllers) runtime.start(controller);
    running.hostControllers?.(runtime);
    t.after(async () => {
      await runtime.stop(100);
      await running.stop();
      await audit.stop();
      await store.close();
    });
    return new Replica(context, running, runtime);
  }

  async call(method: 'POST' | 'PUT' | 'DELETE', path: string, body: object): Promise<string> {
    const answer = await callRoute(
      this.#plane.routes.find((route) => route.method === method && route.path === path),
      {
        caller: socketOwner,
        host: 'localhost',
        headers: { 'content-type': 'application/json' },
        params: { name: 'app1', cluster: 'app1' },
        body: JSON.stringify(body),
      },
    );
    return String(answer.body);
  }

  async review(token: string): Promise<Answer> {
    await this.follow();
    try {
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } };
      const answer = JSON.parse(await this.call('POST', reviewPath, body)) as {
        readonly status: { readonly authenticated?: boolean };
      };
      return answer.status.authenticated === true ? 'authenticated' : 'denied';
    } catch (error) {
      if (hasCode(error, 'HANSA_UNKNOWN_CLUSTER')) return 'unknown';
      if (hasCode(error, 'HANSA_UNAVAILABLE')) return 'unchecked';
      throw error;
    }
  }

  /** The memory driver tells nothing by itself: a replica sees others with its next transaction. */
  async follow(): Promise<void> {
    await this.#store.leases.list();
  }

  /** Leases of the plane that any replica ever held. */
  async leases(): Promise<readonly string[]> {
    const all = await this.#store.leases.list();
    return all.map(({ name }) => name).filter((name) => name.startsWith('controller.cluster-'));
  }

  /** The controllers that run here now. */
  get leading(): readonly string[] {
    return [...this.#runtime.active].filter(([, isHere]) => isHere).map(([name]) => name);
  }
}

function resourceOf(draft: object): Resource {
  return draft as Resource;
}

async function scene(t: TestContext, app1: TokenIssuer) {
  const database = new MemoryDatabase();
  const site = await testSite('lubeck.example');
  const one = await Replica.start(t, 'one', database, site);
  const two = await Replica.start(t, 'two', database, site);
  const create = (mode: string) =>
    one.clusters.create(
      {
        name: 'app1',
        spec: {
          issuer,
          apiServer: app1.url,
          caBundle: app1.ca,
          apiAudiences: [issuer],
          validation: { mode, maxRevocationLagSeconds: 0 },
        } as unknown as Cluster['spec'],
      },
      { controller: 'test' },
    );
  /** Until both replicas give this answer. */
  const both = async (token: string, answer: Answer): Promise<void> => {
    let found: readonly Answer[] = [];
    await until(
      async () => {
        found = [await one.review(token), await two.review(token)];
        return found.every((each) => each === answer);
      },
      () => `the replicas answer ${found.join(' and ')}`,
    );
  };
  return { one, two, create, both };
}

test('a Cluster that one replica stores is served by both, and its removal ends both', async (t) => {
  const app1 = await startTokenIssuer('k1');
  t.after(() => app1.stop());
  const { one, two, create, both } = await scene(t, app1);
  const retained = t.mock.method(ClusterCredentials.prototype, 'retain');
  assert.deepEqual([...one.leading, ...two.leading], [], 'no controller without a Cluster');
  assert.deepEqual(await one.leases(), [], 'no lease without a Cluster');
  await create('jwks');
  const token = app1.token();
  await both(token, 'authenticated');
  await until(async () => (await one.leases()).length === 3, 'the leases are not held');
  retained.mock.resetCalls();
  await two.clusters.delete('app1', { controller: 'test' });
  assert.deepEqual([await one.review(token), await two.review(token)], ['unknown', 'unknown']);
  const forgetful = () =>
    retained.mock.calls
      .filter(({ arguments: [isRegistered] }) => !isRegistered('app1'))
      .map((call) => call.this);
  await until(() => new Set(forgetful()).size === 2, 'a replica keeps its credential');
});

test('a credential that one replica stores is used by both, and one replica renews it', async (t) => {
  const lifeSeconds = 3600;
  const renewed: string[] = [];
  /** The credentials of forwarded reviews. */
  const seen = new Set<string>();
  const app1 = await startTokenIssuer('k1', ({ method, url, bearer, body }) => {
    if (bearer === undefined) return { status: 401 };
    if (method === 'GET') return url === '/version' ? { status: 200 } : undefined;
    if (url.endsWith('/selfsubjectaccessreviews')) {
      return { status: 201, body: { status: { allowed: true } } };
    }
    if (url.endsWith('/serviceaccounts/hansa/token')) {
      const { spec } = body as { readonly spec: { readonly audiences?: readonly string[] } };
      // The others are proofs of its key.
      if (spec.audiences?.[0] !== issuer) return undefined;
      const token = siteToken(lifeSeconds);
      renewed.push(token);
      return { status: 201, body: { status: { token } } };
    }
    if (!url.endsWith('/tokenreviews')) return undefined;
    // The site asks in protobuf first.
    if (body === undefined) return { status: 415 };
    seen.add(bearer);
    return { status: 201, body: { ...body, status: accepted } };
  });
  t.after(() => app1.stop());
  const siteToken = (seconds: number, issuedAgo = 0): string => {
    const now = Math.floor(Date.now() / 1000);
    return app1.token({
      sub: 'system:serviceaccount:kube-fed:hansa',
      iat: now - issuedAgo,
      exp: now + seconds,
      'kubernetes.io': { namespace: 'kube-fed', serviceaccount: { name: 'hansa', uid: 'u' } },
    });
  };
  const { one, two, create, both } = await scene(t, app1);
  await create('tokenreview');
  const token = app1.token();
  await both(token, 'unchecked');

  const first = siteToken(lifeSeconds);
  await two.call('PUT', credentialPath, { token: first });
  await both(token, 'authenticated');
  assert.deepEqual([...seen], [first], 'both replicas use the stored credential');

  const running = (name: string): number =>
    [one, two].filter(({ leading }) => leading.includes(name)).length;
  await until(() => running('cluster-credentials') > 0, 'no replica renews credentials');
  assert.equal(running('cluster-credentials'), 1);
  assert.equal(running('cluster-keys'), 2, 'each replica has keys of its own');

  // Most of its life is over, so it is due at once.
  await one.call('PUT', credentialPath, { token: siteToken(60, lifeSeconds) });
  await until(async () => {
    await Promise.all([one.follow(), two.follow()]);
    return renewed.length > 0;
  }, 'no replica renewed the credential');
  await until(async () => {
    seen.clear();
    await both(token, 'authenticated');
    return seen.size === 1 && seen.has(renewed[0] ?? '');
  }, 'the replicas do not use the renewed credential');
  assert.equal(renewed.length, 1);

  await one.call('DELETE', credentialPath, {});
  assert.deepEqual([await one.review(token), await two.review(token)], ['unchecked', 'unchecked']);
});

const accepted = {
  authenticated: true,
  user: {
    username: 'system:serviceaccount:shop:web',
    uid: '0f4bcb8d-24a1-4f7d-bb6a-0a4d6b1b9f0e',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
    extra: {},
  },
  audiences: [issuer],
};
