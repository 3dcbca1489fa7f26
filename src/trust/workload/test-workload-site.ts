// For tests only: the services for workloads with an in-memory store, and clients of the socket.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import {
  create,
  type DescMessage,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import {
  type ClientReadableStream,
  Client,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import {
  type CheckResponse,
  CheckRequestSchema,
  CheckResponseSchema,
} from '../../../proto/gen/ext_authz_pb.ts';
import {
  X509BundlesResponseSchema,
  X509SVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import type { WorkloadEntry } from './entries/matching-entries.ts';
import type { LabelSelectorObject } from '../../api/selectors/label-selector.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { valueOf } from '../../core/store/reader.ts';
import { MemoryVault } from '../../core/identity/authority/test-vault.ts';
import { EnforcementPoints } from '../../core/plane/enforcement.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { defaultLimits, type WorkloadLimits } from './socket/workload-connections.ts';
import { workloadServices } from './workload-services.ts';
import { silentLog } from '../../core/log/test-log.ts';

export class MovableClock implements Clock {
  /** Added to the wall time. */
  offsetMs = 0;
  /** Added to the time that only grows. */
  monotonicOffsetMs = 0;
  readonly #pending = new Set<{ readonly delayMs: number; readonly fireNow: () => void }>();

  now(): number {
    return systemClock.now() + this.offsetMs;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.monotonicOffsetMs;
  }

  timer(delayMs: number, fire: () => void): ReturnType<Clock['timer']> {
    const cancel = (): void => {
      timer.cancel();
      this.#pending.delete(pending);
    };
    const fireNow = (): void => {
      cancel();
      fire();
    };
    const timer = systemClock.timer(delayMs, fireNow);
    const pending = { delayMs, fireNow };
    this.#pending.add(pending);
    return { cancel };
  }

  /** That time is over at once for everything that is given so long, until this has happened. */
  async elapseUntil(happening: Promise<unknown>, delayMs: number): Promise<void> {
    const passing = setInterval(() => {
      for (const pending of this.#pending) if (pending.delayMs === delayMs) pending.fireNow();
    }, 1);
    try {
      await happening;
    } finally {
      clearInterval(passing);
    }
  }
}

export const ownUid = process.getuid?.() ?? 0;
export const ownSelector = `unix:uid:${ownUid}`;

export function openAuthority(trustDomain: string, clock: Clock): Promise<SiteAuthority> {
  return SiteAuthority.open({
    trustDomain: TrustDomain.parse(trustDomain),
    clock,
    random: systemRandom,
    vault: new MemoryVault(),
  });
}

export async function startTestSite(limits: Partial<WorkloadLimits> = {}) {
  const clock = new MovableClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const authority = await openAuthority('lubeck.example', clock);
  const dataDir = mkdtempSync(join(tmpdir(), 'hansa-workload-'));
  const denials: AuditDraft[] = [];
  const issued: AuditDraft[] = [];
  const metrics = new MetricsRegistry();
  const bundles = new FederatedBundles(store, authority, clock);
  const services = await workloadServices(
    {
      trustDomain: authority.trustDomain,
      store,
      clock,
      random: systemRandom,
      log: silentLog,
      metrics,
      audit: {
        record: () => ({ encode: () => Buffer.from('{}') }),
        deny: (draft) => denials.push(draft),
        later: (draft) => issued.push(draft),
      },
      authority,
      bundles,
      federationState: new StoreFederationState(store, bundles),
      dataDir,
      enforcement: new EnforcementPoints(),
      // Nothing is reconciled in these tests.
      resources: () => ({}) as never,
    },
    { ...defaultLimits, ...limits },
  ).catch((error: unknown) => {
    rmSync(dataDir, { recursive: true, force: true });
    throw error;
  });
  return {
    clock,
    store,
    authority,
    services,
    metrics,
    denials,
    issued,
    socket: services.endpoints.workload,
    stop: async () => {
      await services.stop();
      await store.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

export type TestWorkloadSite = Awaited<ReturnType<typeof startTestSite>>;

/** Resolves when so many calls are open: the site hears of the end of one after its caller does. */
export async function streamsAre(metrics: MetricsRegistry, count: number): Promise<void> {
  while (!metrics.expose().includes(`hansa_workload_streams ${count}\n`)) await yieldToEventLoop();
}

/** Until more of them are open. */
export async function streamsExceed(metrics: MetricsRegistry, count: number): Promise<void> {
  const open = (): number => Number(/hansa_workload_streams (\d+)\n/.exec(metrics.expose())?.[1]);
  while (!(open() > count)) await yieldToEventLoop();
}

interface Put {
  readonly metadata?: { readonly generation?: number };
  readonly spec?: unknown;
}

export async function put(
  store: Store,
  collection: string,
  name: string,
  object: { readonly spec: unknown; readonly status?: unknown },
  labels?: Readonly<Record<string, string>>,
): Promise<void> {
  const before = store.get(collection, name);
  const { metadata, spec } = before === undefined ? {} : (valueOf(before) as Put);
  const { generation = 0 } = metadata ?? {};
  await store.commit({
    put: [
      {
        collection,
        name,
        encode: (revision) =>
          Buffer.from(
            JSON.stringify({
              metadata: {
                name,
                uid: `uid-${name}`,
                resourceVersion: String(revision),
                // As the API counts it: changes of the spec.
                generation: isDeepStrictEqual(spec, object.spec) ? generation : generation + 1,
                labels,
              },
              ...object,
            }),
          ),
      },
    ],
  });
}

export function putEntry(
  store: Store,
  name: string,
  spec: {
    readonly spiffeID?: string;
    readonly selectors?: readonly string[];
    readonly federatesWith?: readonly string[];
    readonly federatesWithSelector?: LabelSelectorObject;
    readonly hint?: string;
    readonly dnsNames?: readonly string[];
    readonly ttlSeconds?: number;
    readonly agents?: WorkloadEntry['spec']['agents'];
  } = {},
): Promise<void> {
  return put(store, 'workloadentries', name, {
    spec: {
      spiffeID: `spiffe://lubeck.example/${name}`,
      selectors: [ownSelector],
      federatesWith: [],
      ttlSeconds: 3600,
      ...spec,
    },
  });
}

export async function remove(store: Store, collection: string, name: string): Promise<void> {
  await store.commit({ delete: [{ collection, name }] });
}

/** A federation whose bundle is that of another site. */
export function putFederation(
  store: Store,
  authority: SiteAuthority,
  labels?: Readonly<Record<string, string>>,
  status: object = {},
): Promise<void> {
  const bundle = encodeSpiffeBundle(authority.bundle, { sequence: 1, refreshHintSeconds: 60 });
  const spec = { bundleSource: { static: { bundle } }, quarantined: false };
  const name = authority.trustDomain.name;
  return put(store, 'spiffefederations', name, { spec, status: { bundle, ...status } }, labels);
}

const secured = (): Metadata => {
  const metadata = new Metadata();
  metadata.set('workload.spiffe.io', 'true');
  return metadata;
};

/** A stream, message by message. */
export class TestStream<S extends DescMessage> {
  readonly #client: Client;
  readonly #call: ClientReadableStream<MessageShape<S>>;
  readonly #messages: MessageShape<S>[] = [];
  #error: ServiceError | undefined;
  #wake = (): void => undefined;

  constructor(socket: string, method: string, response: S, metadata = secured()) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure());
    this.#call = this.#client.makeServerStreamRequest(
      `/SpiffeWorkloadAPI/${method}`,
      (value: Uint8Array) => Buffer.from(value),
      (bytes: Buffer) => fromBinary(response, bytes),
      new Uint8Array(),
      metadata,
    );
    this.#call.on('data', (message: MessageShape<S>) => {
      this.#messages.push(message);
      this.#wake();
    });
    this.#call.on('error', (error: ServiceError) => {
      this.#error = error;
      this.#wake();
    });
  }

  /** Rejects with the status where the stream ends before. */
  async next(): Promise<MessageShape<S>> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      if (this.#error !== undefined) throw this.#error;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** How the stream ended. */
  async end(): Promise<ServiceError> {
    for (;;) {
      if (this.#error !== undefined) return this.#error;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  get waiting(): number {
    return this.#messages.length;
  }

  close(): void {
    this.#call.cancel();
    this.#client.close();
  }
}

export const fetchSvids = (socket: string, metadata?: Metadata) =>
  new TestStream(socket, 'FetchX509SVID', X509SVIDResponseSchema, metadata);

export const fetchBundles = (socket: string) =>
  new TestStream(socket, 'FetchX509Bundles', X509BundlesResponseSchema);

export async function check(
  socket: string,
  question: {
    readonly principal?: string;
    readonly certificate?: string;
    readonly address?: string;
    readonly offer?: string;
    /** Of an HTTP request; without it the check is that of a TCP connection. */
    readonly method?: string;
  },
): Promise<CheckResponse> {
  const client = new Client(`unix:${socket}`, credentials.createInsecure());
  const request = create(CheckRequestSchema, {
    attributes: {
      source: {
        principal: question.principal ?? '',
        certificate: question.certificate ?? '',
        address: { socketAddress: { address: question.address ?? '127.0.0.1', portValue: 1 } },
      },
      contextExtensions: question.offer === undefined ? {} : { offer: question.offer },
      ...(question.method === undefined ? {} : { request: { http: { method: question.method } } }),
    },
  });
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        '/envoy.service.auth.v3.Authorization/Check',
        (value: typeof request) => Buffer.from(toBinary(CheckRequestSchema, value)),
        (bytes: Buffer) => fromBinary(CheckResponseSchema, bytes),
        request,
        (error: ServiceError | null, answer?: CheckResponse) =>
          error === null ? resolve(answer as CheckResponse) : reject(error),
      );
    });
  } finally {
    client.close();
  }
}
