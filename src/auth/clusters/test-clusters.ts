// Test fixture: Cluster objects in a memory store, written through the same path as in a site, and
// clusters whose key documents and API servers a test controls.

import { generateKeyPairSync, type JsonWebKey, type KeyObject } from 'node:crypto';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { Kind } from '../../api/kind.ts';
import { applyDefaults } from '../../api/schema/default.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Transport, TransportResponse } from '../../core/identity/tls/transport.ts';
import type { KubeClient, KubeRequest, KubeResponse } from '../../core/kube/kube-client.ts';
import type { Expectation } from '../../core/store/store.ts';
import { openStore } from '../../core/store/open.ts';
import { kindReader } from '../../core/store/reader.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { keyProver } from '../keys/prove-keys.ts';
import { type Claims, type KeyPair, signToken } from '../review/test-service-account-tokens.ts';
import { accompanyCluster } from '../credentials/accompany-cluster.ts';
import { useExpectation } from '../credentials/credential-use.ts';
import { admitCluster } from './admit-cluster.ts';
import { StoredClusters } from './cluster-directory.ts';
import { accompanyLocal, localClusterName, localExpectation } from './local-cluster.ts';

export const testSettings = { baseDomain: 'kube-fed.example', credentialsDir: undefined };

/** A spec as users write it. */
export interface WrittenSpec {
  readonly issuer: string;
  readonly [field: string]: unknown;
}

/** With the defaults of the schema. */
export function specOf(written: WrittenSpec): Cluster['spec'] {
  return applyDefaults(clusterKind.spec, written) as Cluster['spec'];
}

/** A public key as API servers publish it. */
export function testJwk(publicKey: KeyObject, kid: string | undefined): JsonWebKey {
  return { ...publicKey.export({ format: 'jwk' }), use: 'sig', ...(kid && { kid }) };
}

const pool: KeyPair[] = [];

function testKeyPair(number: number): KeyPair {
  while (pool.length <= number) pool.push(generateKeyPairSync('ec', { namedCurve: 'P-256' }));
  return pool[number] as KeyPair;
}

/** The same key for the same number. P-256, because RSA keys are slow to make. */
export function testKey(number: number): KeyObject {
  return testKeyPair(number).publicKey;
}

export function testJwks(keys: Readonly<Record<string, number>>): string {
  return JSON.stringify({
    keys: Object.entries(keys).map(([kid, number]) => testJwk(testKey(number), kid)),
  });
}

export type TestAnswer =
  | { readonly status: number; readonly body?: string; readonly headers?: Record<string, string> }
  | 'silence'
  | 'refused'
  | HansaError;

/** A server of documents: an issuer, or an API server. */
export class TestServer {
  readonly answers = new Map<string, () => TestAnswer | Promise<TestAnswer>>();
  readonly asked: string[] = [];
  #issuer: string | undefined;
  down = false;
  /** The key that signs tokens, and the claims that replace those of a correct answer to a TokenRequest. */
  signer: { readonly kid: string; readonly number: number; readonly claims?: Claims } | undefined;

  /** Publishes an OpenID configuration and keys, under the paths of an API server. */
  publish(issuer: string, keys: Readonly<Record<string, number>>, jwksURL?: string): void {
    this.#issuer = issuer;
    const path = new URL(issuer).pathname.replace(/\/$/, '');
    const jwks_uri = jwksURL ?? `${new URL(issuer).origin}/openid/v1/jwks`;
    const configuration = JSON.stringify({ issuer, jwks_uri });
    for (const prefix of new Set(['', path])) {
      this.answers.set(`${prefix}/.well-known/openid-configuration`, () => ({
        status: 200,
        body: configuration,
      }));
    }
    this.keys(keys);
  }

  /** The first of them signs. */
  keys(keys: Readonly<Record<string, number>>): void {
    const [first] = Object.entries(keys);
    this.signer = first && { kid: first[0], number: first[1] };
    const body = testJwks(keys);
    this.answers.set('/openid/v1/jwks', () => ({ status: 200, body }));
  }

  /** Answers TokenRequests from now on, for the audience of the question. */
  #answerTokens(path: string, audiences: readonly string[], nowMs: number): TestAnswer | undefined {
    const account = /^\/api\/v1\/namespaces\/([^/]+)\/serviceaccounts\/([^/]+)\/token$/.exec(path);
    const issuer = this.#issuer;
    if (account === null || issuer === undefined || this.signer === undefined) return undefined;
    const [, namespace = '', name = ''] = account;
    const { kid, number, claims } = this.signer;
    const seconds = Math.floor(nowMs / 1000);
    const token = signToken({
      key: testKeyPair(number),
      header: { kid },
      claims: {
        iss: issuer,
        aud: audiences,
        iat: seconds,
        exp: seconds + 600,
        sub: `system:serviceaccount:${namespace}:${name}`,
        'kubernetes.io': { namespace, serviceaccount: { name, uid: `uid-of-${name}` } },
        ...claims,
      },
    });
    return { status: 201, body: JSON.stringify({ status: { token } }) };
  }

  async answer(
    path: string,
    options: {
      clock: VirtualClock;
      timeoutMs: number;
      maxBytes: number;
      signal?: AbortSignal;
      audiences?: readonly string[];
    },
  ): Promise<TransportResponse> {
    const { clock, timeoutMs, maxBytes, signal, audiences = [] } = options;
    this.asked.push(path);
    const unreachable = (why: string): HansaError =>
      new HansaError('HANSA_UNREACHABLE', `Cannot call the server: ${why}.`);
    const answer: TestAnswer = this.down
      ? 'refused'
      : ((await this.answers.get(path)?.()) ??
        this.#answerTokens(path, audiences, clock.now()) ?? { status: 404 });
    if (answer instanceof HansaError) throw answer;
    if (answer === 'refused') throw unreachable('nobody listens');
    if (answer === 'silence') {
      await new Promise<void>((resolve, reject) => {
        clock.timer(timeoutMs, resolve);
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      throw unreachable('it did not answer in time');
    }
    const body = Buffer.from(answer.body ?? '');
    if (body.length > maxBytes) throw new HansaError('HANSA_TOO_LARGE', 'It is too large.');
    return { status: answer.status, headers: answer.headers ?? {}, body };
  }
}

/** A client of which tests need only `request`. */
export function testKubeClient(server: TestServer, clock: VirtualClock): KubeClient {
  const request = ({
    path,
    body,
    timeoutMs = 10_000,
    maxBytes = 4_194_304,
    signal,
  }: KubeRequest): Promise<KubeResponse> => {
    const { audiences } =
      (body as { readonly spec?: { readonly audiences?: readonly string[] } } | undefined)?.spec ??
      {};
    return server.answer(path, {
      clock,
      timeoutMs,
      maxBytes,
      ...(audiences && { audiences }),
      ...(signal && { signal }),
    });
  };
  return { request, close: () => undefined } as unknown as KubeClient;
}

export async function clusterSite() {
  const clock = new VirtualClock();
  const random = new SeededRandom('clusters');
  const store = await openStore({ driver: 'memory' }, { clock });
  const warnings: string[] = [];
  /** Issuers by host. */
  const issuers = new Map<string, TestServer>();
  /** API servers by host. */
  const apiServers = new Map<string, TestServer>();
  const connected: string[] = [];
  const closed: string[] = [];
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: (_caller, kind, next, live, warn) => admit(kind, next, live, warn),
    accompany: (_kind, ...change) => {
      const [next, live] = change as unknown as [Cluster | undefined, Cluster | undefined];
      const beside = [accompanyLocal(store, next, live), accompanyCluster(next, live)];
      return {
        put: beside.flatMap((one) => one?.put ?? []),
        delete: beside.flatMap((one) => one?.delete ?? []),
      };
    },
    auditRow: auditWrites({ record: () => ({ encode: () => Buffer.from('{}') }) }),
  });
  const admit = (
    _kind: Kind,
    next: unknown,
    live: unknown,
    warn: ((text: string) => void) | undefined,
  ): readonly Expectation[] =>
    next === undefined
      ? []
      : admitCluster(
          next as Cluster,
          live as Cluster | undefined,
          {
            settings: testSettings,
            trustDomain: 'lubeck.example',
            siteAudience: 'hansa://lubeck.example',
            local: () => ({ name: localClusterName(store), expectation: localExpectation(store) }),
            othersWithPrefix: () => [],
            all: () => kindReader(clusterKind).list(store),
            use: () => useExpectation(store),
          },
          (text) => {
            warnings.push(text);
            warn?.(text);
          },
        );
  const resources = resourceClient<Cluster>(clusterKind, { store, writer, clock });
  const directory = new StoredClusters({
    store,
    connect: ({ metadata, spec }) => {
      connected.push(metadata.name);
      const server = apiServers.get(new URL(spec.apiServer ?? '').host) ?? new TestServer();
      return {
        ...testKubeClient(server, clock),
        close: () => void closed.push(metadata.name),
      };
    },
  });
  const transport: Transport = {
    connect: async ({ url, timeoutMs, signal }) => {
      const server = issuers.get(url.host);
      if (server === undefined) {
        throw new HansaError('HANSA_UNREACHABLE', `Cannot call ${url.host}: no such name.`);
      }
      return {
        peerChain: [],
        close: () => undefined,
        request: ({ path }, maxBytes) =>
          server.answer(path, { clock, timeoutMs, maxBytes, ...(signal && { signal }) }),
      };
    },
  };
  const as = { controller: 'test' };
  return {
    clock,
    random,
    store,
    transport,
    /** The site calls each API server with a token of kube-fed/hansa. */
    prove: keyProver({
      clock,
      random,
      trustDomain: 'lubeck.example',
      proofOf: async () => ({
        type: 'request',
        account: { namespace: 'kube-fed', name: 'hansa' },
      }),
    }),
    resources,
    directory,
    warnings,
    connected,
    closed,
    issuer: (host: string): TestServer => at(issuers, host),
    apiServer: (host: string): TestServer => at(apiServers, host),
    create: (name: string, spec: WrittenSpec) => resources.create({ name, spec: specOf(spec) }, as),
    change: (name: string, next: (spec: Cluster['spec']) => Cluster['spec']) =>
      resources.patchSpec(name, (current) => next(current.spec), as),
    remove: (name: string) => resources.delete(name, as),
  };
}

function at(servers: Map<string, TestServer>, host: string): TestServer {
  const server = servers.get(host) ?? new TestServer();
  servers.set(host, server);
  return server;
}
