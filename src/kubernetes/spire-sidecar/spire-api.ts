// The calls to a SPIRE server that the sidecar makes over SPIRE's admin socket. Batches are split, so that no
// message gets too large.

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import type { GenMessage } from '@bufbuild/protobuf/codegenv2';
import type { Message } from '@bufbuild/protobuf';
import {
  BatchCreateFederationRelationshipRequestSchema,
  BatchDeleteFederatedBundleRequestSchema,
  BatchDeleteFederationRelationshipRequestSchema,
  BatchResponseSchema,
  BatchSetFederatedBundleRequestSchema,
  BatchUpdateEntryRequestSchema,
  BatchUpdateFederationRelationshipRequestSchema,
  type Bundle,
  BundleSchema,
  EmptySchema,
  type Entry,
  type FederationRelationship,
  FederationRelationshipSchema,
  GetFederatedBundleRequestSchema,
  ListEntriesRequestSchema,
  ListEntriesResponseSchema,
  ListFederatedBundlesRequestSchema,
  ListFederatedBundlesResponseSchema,
  ListFederationRelationshipsRequestSchema,
  ListFederationRelationshipsResponseSchema,
  RefreshBundleRequestSchema,
  type Selector,
} from '../../../proto/gen/spire_server_pb.ts';
import { rpcStatus } from '../../core/rpc/status.ts';
import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import { GrpcError, type GrpcSocket } from './grpc-socket.ts';

export type Endpoint = Pick<
  Relationship,
  'trustDomain' | 'bundleEndpointURL' | 'profile' | 'endpointSpiffeID'
>;

/** The facts about a bundle that SPIRE has. */
export interface BundleFacts {
  readonly trustDomain: string;
  readonly sequence: number;
  readonly refreshHintSeconds: number;
}

/** What became of one item of a batch: undefined, or why it failed. */
export type Result = GrpcError | undefined;

export type FederatedEntry = Pick<Entry, 'id'> & {
  readonly selectors: readonly Pick<Selector, 'type' | 'value'>[];
  readonly federatesWith: readonly string[];
};

/** Every call rejects as GrpcSocket.call does. Results of batches are in the order of the request. */
export interface SpireApi {
  relationships(): Promise<readonly Endpoint[]>;
  bundles(): Promise<readonly BundleFacts[]>;
  /** Undefined where the server has none. */
  bundle(trustDomain: string): Promise<Bundle | undefined>;
  createRelationships(
    items: readonly { readonly endpoint: Endpoint; readonly bundle: Bundle | undefined }[],
  ): Promise<readonly Result[]>;
  updateRelationships(items: readonly Endpoint[]): Promise<readonly Result[]>;
  deleteRelationships(trustDomains: readonly string[]): Promise<readonly Result[]>;
  setBundles(bundles: readonly Bundle[]): Promise<readonly Result[]>;
  /** No entry federates with the trust domain afterwards. */
  deleteBundle(trustDomain: string): Promise<Result>;
  /** Resolves when SPIRE has fetched the bundle. */
  refresh(trustDomain: string, timeoutMs: number): Promise<void>;
  /** Those that federate with any of these trust domains; without the argument: all. */
  entries(federatesWith?: readonly string[]): Promise<readonly FederatedEntry[]>;
  setFederatesWith(entries: readonly FederatedEntry[]): Promise<readonly Result[]>;
}

const callWithinMs = 10_000;
const pageSize = 500;
/** Bundles have some KB each. */
const batchSize = 50;

/** Values of SPIRE's enums: BatchDeleteFederatedBundleRequest.Mode, FederatesWithMatch.MatchBehavior. */
const dissociate = 2;
const matchAny = 3;

const service = {
  trustDomain: '/spire.api.server.trustdomain.v1.TrustDomain/',
  bundle: '/spire.api.server.bundle.v1.Bundle/',
  entry: '/spire.api.server.entry.v1.Entry/',
} as const;

export class GrpcSpireApi implements SpireApi {
  readonly #socket: GrpcSocket;

  constructor(socket: GrpcSocket) {
    this.#socket = socket;
  }

  async relationships(): Promise<readonly Endpoint[]> {
    const found: Endpoint[] = [];
    for (let pageToken = ''; ; ) {
      const page = await this.#call(
        `${service.trustDomain}ListFederationRelationships`,
        ListFederationRelationshipsRequestSchema,
        {
          outputMask: { bundleEndpointUrl: true, bundleEndpointProfile: true },
          pageSize,
          pageToken,
        },
        ListFederationRelationshipsResponseSchema,
      );
      found.push(...page.federationRelationships.map(endpointOf));
      pageToken = page.nextPageToken;
      if (pageToken === '') return found;
    }
  }

  async bundles(): Promise<readonly BundleFacts[]> {
    const found: BundleFacts[] = [];
    for (let pageToken = ''; ; ) {
      const page = await this.#call(
        `${service.bundle}ListFederatedBundles`,
        ListFederatedBundlesRequestSchema,
        { outputMask: { refreshHint: true, sequenceNumber: true }, pageSize, pageToken },
        ListFederatedBundlesResponseSchema,
      );
      found.push(
        ...page.bundles.map(({ trustDomain, sequenceNumber, refreshHint }) => ({
          trustDomain: bareName(trustDomain),
          sequence: Number(sequenceNumber),
          refreshHintSeconds: Number(refreshHint),
        })),
      );
      pageToken = page.nextPageToken;
      if (pageToken === '') return found;
    }
  }

  async bundle(trustDomain: string): Promise<Bundle | undefined> {
    try {
      const path = `${service.bundle}GetFederatedBundle`;
      return await this.#call(path, GetFederatedBundleRequestSchema, { trustDomain }, BundleSchema);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  createRelationships(
    items: readonly { readonly endpoint: Endpoint; readonly bundle: Bundle | undefined }[],
  ): Promise<readonly Result[]> {
    return inBatches(items, async (some) => {
      const federationRelationships = some.map(({ endpoint, bundle }) =>
        messageOf(endpoint, bundle),
      );
      return this.#batch(
        `${service.trustDomain}BatchCreateFederationRelationship`,
        BatchCreateFederationRelationshipRequestSchema,
        { federationRelationships, outputMask: {} },
      );
    });
  }

  updateRelationships(items: readonly Endpoint[]): Promise<readonly Result[]> {
    return inBatches(items, (some) =>
      this.#batch(
        `${service.trustDomain}BatchUpdateFederationRelationship`,
        BatchUpdateFederationRelationshipRequestSchema,
        {
          federationRelationships: some.map((each) => messageOf(each, undefined)),
          inputMask: { bundleEndpointUrl: true, bundleEndpointProfile: true },
          outputMask: {},
        },
      ),
    );
  }

  deleteRelationships(trustDomains: readonly string[]): Promise<readonly Result[]> {
    return inBatches(trustDomains, (some) =>
      this.#batch(
        `${service.trustDomain}BatchDeleteFederationRelationship`,
        BatchDeleteFederationRelationshipRequestSchema,
        { trustDomains: [...some] },
      ),
    );
  }

  setBundles(bundles: readonly Bundle[]): Promise<readonly Result[]> {
    return inBatches(bundles, (some) =>
      this.#batch(
        `${service.bundle}BatchSetFederatedBundle`,
        BatchSetFederatedBundleRequestSchema,
        { bundle: [...some], outputMask: {} },
      ),
    );
  }

  async deleteBundle(trustDomain: string): Promise<Result> {
    const [result] = await this.#batch(
      `${service.bundle}BatchDeleteFederatedBundle`,
      BatchDeleteFederatedBundleRequestSchema,
      { trustDomains: [trustDomain], mode: dissociate },
    );
    return result;
  }

  async refresh(trustDomain: string, timeoutMs: number): Promise<void> {
    await this.#call(
      `${service.trustDomain}RefreshBundle`,
      RefreshBundleRequestSchema,
      { trustDomain },
      EmptySchema,
      timeoutMs,
    );
  }

  async entries(federatesWith?: readonly string[]): Promise<readonly FederatedEntry[]> {
    const found: FederatedEntry[] = [];
    for (let pageToken = ''; ; ) {
      const page = await this.#call(
        `${service.entry}ListEntries`,
        ListEntriesRequestSchema,
        {
          ...(federatesWith !== undefined && {
            filter: {
              byFederatesWith: {
                trustDomains: [...federatesWith],
                match: matchAny,
              },
            },
          }),
          outputMask: { selectors: true, federatesWith: true },
          pageSize,
          pageToken,
        },
        ListEntriesResponseSchema,
      );
      found.push(...page.entries);
      pageToken = page.nextPageToken;
      if (pageToken === '') return found;
    }
  }

  setFederatesWith(entries: readonly FederatedEntry[]): Promise<readonly Result[]> {
    return inBatches(entries, (some) =>
      this.#batch(`${service.entry}BatchUpdateEntry`, BatchUpdateEntryRequestSchema, {
        entries: some.map(({ id, federatesWith }) => ({ id, federatesWith: [...federatesWith] })),
        inputMask: { federatesWith: true },
        outputMask: {},
      }),
    );
  }

  async #batch<I extends Message>(
    path: string,
    input: GenMessage<I>,
    value: MessageInitShape<GenMessage<I>>,
  ): Promise<readonly Result[]> {
    const { results } = await this.#call(path, input, value, BatchResponseSchema);
    return results.map(({ status }) =>
      status === undefined || status.code === rpcStatus.ok
        ? undefined
        : new GrpcError(status.code, status.message),
    );
  }

  async #call<I extends Message, O extends Message>(
    path: string,
    input: GenMessage<I>,
    value: MessageInitShape<GenMessage<I>>,
    output: GenMessage<O>,
    timeoutMs = callWithinMs,
  ): Promise<O> {
    const message = toBinary(input, create(input, value));
    return fromBinary(output, await this.#socket.call({ path, message, timeoutMs }));
  }
}

export function isNotFound(error: unknown): boolean {
  return error instanceof GrpcError && error.code === rpcStatus.notFound;
}

/** SPIRE writes some trust domains as SPIFFE IDs. */
const bareName = (trustDomain: string): string => trustDomain.replace(/^spiffe:\/\//, '');

function endpointOf(relationship: FederationRelationship): Endpoint {
  const { trustDomain, bundleEndpointUrl, bundleEndpointProfile: profile } = relationship;
  const common = { trustDomain: bareName(trustDomain), bundleEndpointURL: bundleEndpointUrl };
  return profile.case === 'httpsSpiffe'
    ? { ...common, profile: 'https_spiffe', endpointSpiffeID: profile.value.endpointSpiffeId }
    : { ...common, profile: 'https_web' };
}

function messageOf(endpoint: Endpoint, bundle: Bundle | undefined): FederationRelationship {
  const { trustDomain, bundleEndpointURL, profile, endpointSpiffeID = '' } = endpoint;
  return create(FederationRelationshipSchema, {
    trustDomain,
    bundleEndpointUrl: bundleEndpointURL,
    bundleEndpointProfile:
      profile === 'https_web'
        ? { case: 'httpsWeb', value: {} }
        : { case: 'httpsSpiffe', value: { endpointSpiffeId: endpointSpiffeID } },
    ...(bundle !== undefined && { trustDomainBundle: bundle }),
  });
}

async function inBatches<T>(
  items: readonly T[],
  send: (some: readonly T[]) => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (let at = 0; at < items.length; at += batchSize) {
    results.push(...(await send(items.slice(at, at + batchSize))));
  }
  return results;
}
