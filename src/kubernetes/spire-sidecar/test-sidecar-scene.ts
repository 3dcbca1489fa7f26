// A sidecar with a SPIRE server and ConfigMaps in memory, on a virtual clock. The server follows the rules of
// SPIRE's API that the sidecar depends on. The tests with a real SPIRE server are in test/interop.

import { readFileSync } from 'node:fs';
import { clone, create } from '@bufbuild/protobuf';
import { type Bundle as SpireBundle, BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { rpcStatus } from '../../core/rpc/status.ts';
import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import type {
  RelationshipsDocument,
  StatusDocument,
} from '../spire-relationships/sidecar-contract.ts';
import { type Exclusions, exclusionsText, readExclusions } from './excluded-entries.ts';
import { GrpcError } from './grpc-socket.ts';
import { type ReadRelationships, readRelationships } from './read-relationships.ts';
import { Sidecar, type SidecarMaps } from './sidecar.ts';
import type { SidecarRecord } from './sidecar-record.ts';
import type { BundleFacts, Endpoint, FederatedEntry, Result, SpireApi } from './spire-api.ts';

/** A bundle that a real SPIRE server wrote. */
const sample = JSON.parse(
  readFileSync(
    new URL('../../core/identity/bundle/sample-spire-bundle.json', import.meta.url),
    'utf8',
  ),
) as { readonly keys: readonly { readonly use: string }[] };
const made = new Map<string, string>();

/** A bundle as a SPIRE server of this trust domain writes it, with two authorities of each kind. */
export function bundleOf(trustDomain: string): string {
  const known = made.get(trustDomain);
  if (known !== undefined) return known;
  const roots = [forgeRoot(trustDomain), forgeRoot(trustDomain)];
  const bundle = new Bundle(
    TrustDomain.parse(trustDomain),
    roots.map(({ certificate }) => certificate),
  );
  const x509 = JSON.parse(
    encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 300 }),
  ) as typeof sample;
  const jwt = sample.keys.filter(({ use }) => use === 'jwt-svid');
  const document = JSON.stringify({ ...sample, keys: [...x509.keys, ...jwt] });
  made.set(trustDomain, document);
  return document;
}

/** The same authorities in another document. */
export const otherForm = (document: string): string =>
  JSON.stringify(JSON.parse(document), null, 1);

export const relationship = (
  trustDomain: string,
  more: Partial<Relationship> = {},
): Relationship => ({
  trustDomain,
  bundleEndpointURL: `https://${trustDomain}/`,
  profile: 'https_spiffe',
  endpointSpiffeID: `spiffe://${trustDomain}/spire/server`,
  from: 'SpireServer',
  ...more,
});

const notFound = (): GrpcError => new GrpcError(rpcStatus.notFound, 'not found');

export class MemorySpire implements SpireApi {
  readonly held = new Map<string, Endpoint>();
  readonly bundlesHeld = new Map<string, SpireBundle>();
  readonly entriesHeld = new Map<string, readonly string[]>();
  /** Selectors of entries that have some, as k8s:ns:web. */
  readonly selectorsHeld = new Map<string, readonly string[]>();
  readonly refreshed: string[] = [];
  /** What endpoints serve, if that is not what the server has. */
  readonly served = new Map<string, SpireBundle>();
  /** Trust domains whose endpoint does not answer, and SPIRE's words about it. */
  readonly dead = new Map<string, string>();
  /** Trust domains whose endpoint accepts connections and does not answer, until `answer` is called. */
  readonly silent = new Map<string, (() => void)[]>();
  /** How many fetches of each trust domain hang. */
  readonly hanging = (trustDomain: string): number => this.silent.get(trustDomain)?.length ?? 0;
  /** Deleted relationships whose fetch hangs: SPIRE serves no refresh until it ends. */
  readonly #blocking = new Set<string>();
  isDown = false;
  /** Entries that the server refuses to change. */
  readonly stubborn = new Set<string>();
  changes = 0;

  async relationships(): Promise<readonly Endpoint[]> {
    this.#check();
    return [...this.held.values()];
  }

  async bundles(): Promise<readonly BundleFacts[]> {
    this.#check();
    return [...this.bundlesHeld.values()].map(({ trustDomain, sequenceNumber, refreshHint }) => ({
      trustDomain,
      sequence: Number(sequenceNumber),
      refreshHintSeconds: Number(refreshHint),
    }));
  }

  async bundle(trustDomain: string): Promise<SpireBundle | undefined> {
    this.#check();
    const held = this.bundlesHeld.get(trustDomain);
    return held && clone(BundleSchema, held);
  }

  async createRelationships(
    items: readonly { readonly endpoint: Endpoint; readonly bundle: SpireBundle | undefined }[],
  ): Promise<readonly Result[]> {
    return this.#each(items, ({ endpoint, bundle }) => {
      const { trustDomain } = endpoint;
      if (this.held.has(trustDomain)) return new GrpcError(rpcStatus.alreadyExists, 'exists');
      this.held.set(trustDomain, endpointOnly(endpoint));
      if (bundle !== undefined) this.bundlesHeld.set(trustDomain, bundle);
      return undefined;
    });
  }

  async updateRelationships(items: readonly Endpoint[]): Promise<readonly Result[]> {
    return this.#each(items, (endpoint) => {
      if (!this.held.has(endpoint.trustDomain)) return notFound();
      this.held.set(endpoint.trustDomain, endpointOnly(endpoint));
      return undefined;
    });
  }

  async deleteRelationships(trustDomains: readonly string[]): Promise<readonly Result[]> {
    return this.#each(trustDomains, (name) => {
      if (!this.held.delete(name)) return notFound();
      if (this.silent.has(name)) this.#blocking.add(name);
      return undefined;
    });
  }

  async setBundles(bundles: readonly SpireBundle[]): Promise<readonly Result[]> {
    return this.#each(bundles, (bundle) => {
      this.bundlesHeld.set(bundle.trustDomain, bundle);
      return undefined;
    });
  }

  async deleteBundle(trustDomain: string): Promise<Result> {
    this.#check();
    this.changes++;
    for (const [id, names] of this.entriesHeld) {
      this.entriesHeld.set(
        id,
        names.filter((name) => name !== trustDomain),
      );
    }
    return this.bundlesHeld.delete(trustDomain) ? undefined : notFound();
  }

  async refresh(trustDomain: string): Promise<void> {
    this.#check();
    this.refreshed.push(trustDomain);
    const isHeld = this.held.has(trustDomain) && this.bundlesHeld.has(trustDomain);
    const [blocker = isHeld ? trustDomain : ''] = this.#blocking;
    const waiting = this.silent.get(blocker);
    if (waiting !== undefined) await new Promise<void>((resolve) => waiting.push(resolve));
    const why = this.dead.get(trustDomain);
    if (why !== undefined) throw new GrpcError(rpcStatus.internal, why);
    if (!this.held.has(trustDomain)) throw notFound();
    if (!this.bundlesHeld.has(trustDomain)) {
      throw new GrpcError(rpcStatus.internal, 'bundle not found');
    }
    const served = this.served.get(trustDomain);
    if (served !== undefined) this.bundlesHeld.set(trustDomain, served);
  }

  /** The endpoint ends its connections. */
  answer(trustDomain: string): void {
    const waiting = this.silent.get(trustDomain) ?? [];
    this.silent.delete(trustDomain);
    this.#blocking.delete(trustDomain);
    for (const resolve of waiting) resolve();
  }

  /** The other trust domain has a new bundle. */
  rotate(trustDomain: string): void {
    const before = this.bundlesHeld.get(trustDomain);
    if (before === undefined) throw new Error(`no bundle of ${trustDomain}`);
    const sequenceNumber = before.sequenceNumber + 1n;
    this.bundlesHeld.set(trustDomain, create(BundleSchema, { ...before, sequenceNumber }));
  }

  async entries(federatesWith?: readonly string[]): Promise<readonly FederatedEntry[]> {
    this.#check();
    return [...this.entriesHeld]
      .map(([id, names]) => ({
        id,
        federatesWith: names,
        selectors: (this.selectorsHeld.get(id) ?? []).map((text) => ({
          type: text.slice(0, text.indexOf(':')),
          value: text.slice(text.indexOf(':') + 1),
        })),
      }))
      .filter(
        (entry) =>
          federatesWith === undefined ||
          entry.federatesWith.some((name) => federatesWith.includes(name)),
      );
  }

  async setFederatesWith(entries: readonly FederatedEntry[]): Promise<readonly Result[]> {
    return this.#each(entries, ({ id, federatesWith }) => {
      if (!this.entriesHeld.has(id)) return notFound();
      if (this.stubborn.has(id)) return new GrpcError(rpcStatus.internal, 'stubborn');
      if (federatesWith.some((name) => !this.bundlesHeld.has(name))) {
        return new GrpcError(rpcStatus.internal, 'unable to find federated bundle');
      }
      this.entriesHeld.set(id, federatesWith);
      return undefined;
    });
  }

  #each<T>(items: readonly T[], change: (item: T) => Result): readonly Result[] {
    this.#check();
    this.changes += items.length;
    return items.map(change);
  }

  #check(): void {
    if (this.isDown) throw new HansaError('HANSA_UNREACHABLE', 'no server at the socket');
  }
}

const endpointOnly = ({
  trustDomain,
  bundleEndpointURL,
  profile,
  endpointSpiffeID,
}: Endpoint): Endpoint => ({
  trustDomain,
  bundleEndpointURL,
  profile,
  ...(profile === 'https_spiffe' &&
    endpointSpiffeID !== undefined && { endpointSpiffeID: endpointSpiffeID }),
});

export class MemoryMaps implements SidecarMaps {
  readonly saved = new Map<string, SidecarRecord>();
  /** As the ConfigMap has it. */
  excluded = '[]';
  wanted: ReadRelationships | undefined;
  last: StatusDocument | undefined;
  writes = 0;
  /** The ConfigMap of records cannot be written. */
  isReadOnly = false;

  request(): ReadRelationships | undefined {
    return this.wanted;
  }
  report(): StatusDocument | undefined {
    return this.last;
  }
  records(): ReadonlyMap<string, SidecarRecord> {
    return this.saved;
  }
  async save(record: SidecarRecord): Promise<void> {
    if (this.isReadOnly) throw new HansaError('HANSA_UNREACHABLE', 'no API server');
    this.writes++;
    this.saved.set(record.trustDomain, record);
  }
  exclusions(): Exclusions {
    return readExclusions(this.excluded);
  }
  async saveExclusions(exclusions: Exclusions): Promise<void> {
    this.writes++;
    this.excluded = exclusionsText(exclusions);
  }
  async saveReport(report: StatusDocument): Promise<void> {
    this.writes++;
    this.last = report;
  }
}

export class SidecarScene {
  readonly clock = new VirtualClock();
  readonly spire = new MemorySpire();
  readonly maps = new MemoryMaps();
  /** Of the server, as its metrics say. */
  version: string | undefined;
  #sidecar = this.#start();

  /** Asks for these relationships, and lets ten seconds pass. */
  async ask(
    relationships: readonly Relationship[],
    more: Partial<RelationshipsDocument> = {},
  ): Promise<void> {
    await this.askFor({
      trustDomain: 'a.example',
      staleAfterSeconds: 3600,
      withholdStaleBundles: false,
      relationships,
      held: [],
      ...more,
    });
  }

  /** Asks for this document, and lets ten seconds pass. */
  async askFor(document: unknown): Promise<void> {
    this.maps.wanted = readRelationships(JSON.stringify(document));
    this.#sidecar.wake();
    await this.clock.advance(10_000);
  }

  /** The sidecar ends, and another one starts. */
  async restart(): Promise<void> {
    await this.#sidecar.stop();
    this.#sidecar = this.#start();
    this.#sidecar.wake();
    await this.clock.advance(10_000);
  }

  async stop(): Promise<void> {
    await this.#sidecar.stop();
  }

  status(trustDomain: string) {
    return this.maps.last?.relationships.find((each) => each.trustDomain === trustDomain);
  }

  #start(): Sidecar {
    const { spire, maps, clock } = this;
    const version = async () => this.version;
    return new Sidecar({ spire, maps, version, clock, log: silentLog });
  }
}
