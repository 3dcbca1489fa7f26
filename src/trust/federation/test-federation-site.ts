// For tests only: the federation controller with an in-memory store, virtual time and fake bundle
// endpoints.

import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import type { Kind } from '../../api/kind.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import type { Resource } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { FederatedBundles } from './federated-bundles.ts';
import { type Forged, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import type {
  Transport,
  TransportRequest,
  TransportResponse,
  WebRules,
} from '../../core/identity/tls/transport.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { openStore } from '../../core/store/open.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { federationController } from '../controllers/federation-controller.ts';
import { FederationMetrics, observeFederations } from './federation-metrics.ts';
import { refreshCollection, type RefreshRequest } from './refresh-request.ts';

const maxFederations = 10_000;

/** A bundle endpoint of another trust domain. */
export class TestEndpoint {
  readonly trustDomain: string;
  readonly id: string;
  root: Forged;
  /** The certificate that the endpoint presents (default: its leaf under `root`). */
  presents: Forged | undefined;
  answer: () => TransportResponse | 'silence' | 'refused';
  /** The endpoint answers after this promise resolves. */
  delay: Promise<void> | undefined;
  requests = 0;
  /** The last request, and its Web PKI rules. */
  asked: TransportRequest | undefined;
  web: WebRules | undefined;

  constructor(trustDomain: string) {
    this.trustDomain = trustDomain;
    this.id = `spiffe://${trustDomain}/hansa/site`;
    this.root = forgeRoot(trustDomain);
    this.answer = () => this.ok(this.document([this.root], 1));
  }

  get url(): string {
    return `https://${this.trustDomain}:8443/`;
  }

  document(roots: readonly Forged[], sequence: number, refreshHintSeconds = 300): string {
    const bundle = new Bundle(
      TrustDomain.parse(this.trustDomain),
      roots.map(({ certificate }) => certificate),
    );
    return encodeSpiffeBundle(bundle, { sequence, refreshHintSeconds });
  }

  ok(body: string): TransportResponse {
    return { status: 200, headers: {}, body: Buffer.from(body) };
  }

  webSpec(httpsWeb: object = {}): SPIFFEFederation['spec'] {
    return {
      bundleSource: { httpsWeb: { bundleEndpointURL: this.url, ...httpsWeb } },
      staleAfterSeconds: 3600,
      quarantined: false,
    };
  }

  spec(extra: object = {}): SPIFFEFederation['spec'] {
    return {
      bundleSource: {
        httpsSpiffe: {
          bundleEndpointURL: this.url,
          endpointSpiffeID: this.id,
          bundleBootstrap: this.document([this.root], 1),
        },
      },
      staleAfterSeconds: 3600,
      quarantined: false,
      ...extra,
    };
  }
}

export async function federationSite() {
  const clock = new VirtualClock();
  const random = new SeededRandom('federation');
  const { authority } = await testSite('lubeck.example', { clock });
  const store = await openStore({ driver: 'memory' }, { clock });
  const records: { verb: string; name: string; reason: string }[] = [];
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: () => [],
    auditRow: auditWrites({
      record: ({ verb, name = '', reason = '' }) => {
        records.push({ verb, name, reason });
        return { encode: () => Buffer.from('{}') };
      },
    }),
  });
  const refusals: AuditDraft[] = [];
  const endpoints = new Map<string, TestEndpoint>();
  const transport: Transport = {
    connect: async ({ url, verify, timeoutMs, asSite, web }) => {
      const unreachable = (why: string, code?: string): HansaError =>
        new HansaError('HANSA_UNREACHABLE', `Cannot call ${url.host}: ${why}.`, {
          cause: Object.assign(new Error(why), { code }),
        });
      const endpoint = endpoints.get(url.hostname);
      if (endpoint === undefined) throw unreachable('no such name', 'ENOTFOUND');
      endpoint.requests++;
      const answer = endpoint.answer();
      if (answer === 'refused') throw unreachable('nobody answers', 'ECONNREFUSED');
      const leaf = endpoint.presents ?? forgeLeaf(endpoint.root, endpoint.id);
      if (asSite) throw new Error('a bundle is fetched as nobody');
      verify(web === undefined ? [leaf.certificate] : []);
      endpoint.web = web;
      return {
        peerChain: [leaf.certificate],
        close: () => undefined,
        request: async (request, maxBytes) => {
          endpoint.asked = request;
          if (answer === 'silence') {
            await new Promise<void>((resolve) => clock.timer(timeoutMs, resolve));
            throw unreachable('it did not answer');
          }
          await endpoint.delay;
          if (answer.body.length > maxBytes) throw new HansaError('HANSA_TOO_LARGE', 'too large');
          return answer;
        },
      };
    },
  };
  const metrics = new MetricsRegistry();
  observeFederations(metrics, store, clock, maxFederations);
  const resources = <R extends Resource>(kind: Kind) =>
    resourceClient<R>(kind, { store, writer, clock });
  const federations = resources<SPIFFEFederation>(spiffeFederationKind);
  const bundles = new FederatedBundles(store, authority, clock);
  const runtime = testRuntime({ clock, random, metrics, store });
  runtime.start(
    federationController(
      {
        store,
        clock,
        random,
        transport,
        heldBundles: bundles.held,
        authority,
        resources,
        audit: {
          record: () => {
            throw new Error('rows come from writes');
          },
          later: () => undefined,
          deny: (draft) => refusals.push(draft),
        },
      },
      new FederationMetrics(metrics, maxFederations),
    ),
  );
  const as = { controller: 'test' };
  return {
    clock,
    store,
    authority,
    bundles,
    metrics,
    records,
    refusals,
    federations,
    transport,
    writer,
    endpoint: (trustDomain: string): TestEndpoint => {
      const made = new TestEndpoint(trustDomain);
      endpoints.set(trustDomain, made);
      return made;
    },
    create: (name: string, spec: SPIFFEFederation['spec']) =>
      federations.create({ name, spec }, as),
    change: (name: string, next: (spec: SPIFFEFederation['spec']) => SPIFFEFederation['spec']) =>
      federations.patchSpec(name, (current) => next(current.spec), as),
    remove: (name: string) => federations.delete(name, as),
    /** As `hansa trust refresh` does. */
    refresh: (name: string, wish: Partial<RefreshRequest> = {}) =>
      store.commit({
        put: [
          {
            collection: refreshCollection,
            name,
            encode: () =>
              Buffer.from(
                JSON.stringify({
                  requestedAt: '',
                  by: 'test',
                  acceptRollback: false,
                  rebootstrap: false,
                  ...wish,
                }),
              ),
          },
        ],
      }),
    /** The status with its current facts; fails if there is none. */
    status: async (name: string) => {
      const federation = await federations.get(name);
      const facts = store.facts.get(spiffeFederationKind.plural, name);
      const status = federation && withLiveStatus(spiffeFederationKind, federation, facts).status;
      if (status === undefined) throw new Error(`${name} has no status`);
      return status;
    },
    condition: async (name: string, type: string) =>
      (await federations.get(name))?.status?.conditions?.find((each) => each.type === type),
    stop: () => runtime.stop(),
  };
}
