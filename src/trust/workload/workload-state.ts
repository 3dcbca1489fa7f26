// The complete state of a workload at one time, encoded for the streams of the Workload API. Streams
// carry full states, so a comparison of versions shows whether anything changed. Each state is encoded
// once for all streams. Pure.

import { hash } from 'node:crypto';
import { create, toBinary } from '@bufbuild/protobuf';
import {
  JWTBundlesResponseSchema,
  X509BundlesResponseSchema,
  X509SVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { unpooledCopy } from '../../core/memory/unpooled-copy.ts';
import { encodeJwtBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import type { PeerIdentities } from '../authorization/peer-identities.ts';
import type { UsableEntry } from './entries/matching-entries.ts';
import type { SuppliedSvid } from './svids/svid-supply.ts';

export interface HintedSvid {
  /** Unique in a state where it is not empty. */
  readonly hint: string;
  readonly svid: SuppliedSvid;
}

export class WorkloadState {
  /** Those that match, in order. */
  readonly entries: readonly UsableEntry[];
  /** One per entry. Empty if no stream needs SVIDs. The first is the default identity. */
  readonly svids: readonly HintedSvid[];
  readonly own: Bundle;
  /** Of other trust domains, in order. */
  readonly federated: readonly Bundle[];
  /** The identities that the workload may talk to, by trust domain of a peer. */
  readonly peers: ReadonlyMap<string, PeerIdentities>;
  #bundlesVersion: string | undefined;
  #svidVersion: string | undefined;
  #svidResponse: Uint8Array | undefined;
  #bundlesResponse: Uint8Array | undefined;
  #jwtBundlesVersion: string | undefined;
  #jwtBundlesResponse: Uint8Array | undefined;

  constructor(
    entries: readonly UsableEntry[],
    svids: readonly HintedSvid[],
    own: Bundle,
    federated: readonly Bundle[],
    peers: ReadonlyMap<string, PeerIdentities>,
  ) {
    this.entries = entries;
    this.svids = svids;
    this.own = own;
    this.federated = federated;
    this.peers = peers;
  }

  /** Changes with the content of `bundlesResponse`. */
  get bundlesVersion(): string {
    this.#bundlesVersion ??= [this.own, ...this.federated]
      .map((one) => x509Of(one).version)
      .join('\n');
    return this.#bundlesVersion;
  }

  /** Changes with the content of `svidResponse`. */
  get svidVersion(): string {
    if (this.#svidVersion === undefined) {
      const serials = this.svids.map(({ hint, svid }) => `${hint}\n${svid.serialHex}`);
      this.#svidVersion = `${serials.join('\n')}\n\n${this.bundlesVersion}`;
    }
    return this.#svidVersion;
  }

  /** An X509SVIDResponse. */
  get svidResponse(): Uint8Array {
    this.#svidResponse ??= Buffer.concat([
      toBinary(
        X509SVIDResponseSchema,
        create(X509SVIDResponseSchema, {
          svids: this.svids.map(({ hint, svid }) => ({
            spiffeId: svid.id.toString(),
            x509Svid: Buffer.concat(svid.chain),
            x509SvidKey: svid.key,
            bundle: derOf(this.own),
            hint,
          })),
        }),
      ),
      ...this.federated.map((one) => x509Of(one).inSvidResponse),
    ]);
    return this.#svidResponse;
  }

  /** An X509BundlesResponse. */
  get bundlesResponse(): Uint8Array {
    this.#bundlesResponse ??= Buffer.concat(
      [this.own, ...this.federated].map((one) => x509Of(one).inBundlesResponse),
    );
    return this.#bundlesResponse;
  }

  /** Changes with the content of `jwtBundlesResponse`. */
  get jwtBundlesVersion(): string {
    this.#jwtBundlesVersion ??= this.#jwtBundles()
      .map((one) => `${one.trustDomain.name} ${jwtOf(one).version}`)
      .join('\n');
    return this.#jwtBundlesVersion;
  }

  /** A JWTBundlesResponse. */
  get jwtBundlesResponse(): Uint8Array {
    this.#jwtBundlesResponse ??= Buffer.concat(
      this.#jwtBundles().map((one) => jwtOf(one).inBundlesResponse),
    );
    return this.#jwtBundlesResponse;
  }

  /** SPIFFE Workload API section 6.2.2: always our own, and those of others that have any. */
  #jwtBundles(): readonly Bundle[] {
    return [this.own, ...this.federated.filter(({ jwtAuthorities }) => jwtAuthorities.size > 0)];
  }
}

/**
 * Encodes each bundle once for all messages. Encoded protobuf fields can be concatenated ("Last
 * One Wins"), and a map is one field per entry.
 */
interface X509Part {
  /** Without the JWT authorities, which the X.509 profile does not send. */
  readonly version: string;
  /** Empty for a bundle with only JWT authorities, because clients reject a bundle without certificates. */
  readonly inSvidResponse: Uint8Array;
  readonly inBundlesResponse: Uint8Array;
}

const parts = new WeakMap<Bundle, X509Part>();

/** Encodes one bundle in advance, so that a state with thousands of bundles is built in small steps. */
export function x509Of(bundle: Bundle): X509Part {
  let part = parts.get(bundle);
  if (part === undefined) {
    const { authorities, trustDomain } = bundle;
    const entry = authorities.length === 0 ? {} : { [trustDomain.id]: derOf(bundle) };
    part = {
      version: `${trustDomain.name} ${digestOf(authorities.map((one) => one.fingerprint).join())}`,
      inSvidResponse: unpooledCopy(
        toBinary(
          X509SVIDResponseSchema,
          create(X509SVIDResponseSchema, { federatedBundles: entry }),
        ),
      ),
      inBundlesResponse: unpooledCopy(
        toBinary(X509BundlesResponseSchema, create(X509BundlesResponseSchema, { bundles: entry })),
      ),
    };
    parts.set(bundle, part);
  }
  return part;
}

/** 132 bits of SHA-256: short, because a state has thousands of them. */
function digestOf(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, 22);
}

/** SPIFFE Workload API section 5.2.1: certificates one after the other, without any padding. */
function derOf({ authorities }: Bundle): Uint8Array<ArrayBuffer> {
  return Buffer.concat(authorities.map(({ der }) => der));
}

interface JwtPart {
  readonly version: string;
  /** With a JWK Set (RFC 7517). */
  readonly inBundlesResponse: Uint8Array;
}

const jwtParts = new WeakMap<Bundle, JwtPart>();

/** As `x509Of`. */
export function jwtOf(bundle: Bundle): JwtPart {
  let part = jwtParts.get(bundle);
  if (part === undefined) {
    const document = encodeJwtBundle(bundle);
    const bundles = { [bundle.trustDomain.id]: Buffer.from(document) };
    const message = create(JWTBundlesResponseSchema, { bundles });
    const inBundlesResponse = unpooledCopy(toBinary(JWTBundlesResponseSchema, message));
    part = { version: digestOf(document), inBundlesResponse };
    jwtParts.set(bundle, part);
  }
  return part;
}
