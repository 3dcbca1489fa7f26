// The whole of what a workload is told at one moment, as ready-made bytes. Streams of the Workload
// API carry full states, so telling whether anything changed is comparing two versions. Pure.

import { create, toBinary } from '@bufbuild/protobuf';
import {
  X509BundlesResponseSchema,
  X509SVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import type { Bundle } from '../../core/identity/bundle.ts';
import type { SuppliedSvid } from './svid-supply.ts';

export interface HintedSvid {
  /** The name of the entry: unique within a site, so also within a response. */
  readonly hint: string;
  readonly svid: SuppliedSvid;
}

export class WorkloadState {
  readonly svids: readonly HintedSvid[];
  readonly own: Bundle;
  /** Of other trust domains, in order. */
  readonly federated: readonly Bundle[];
  #svidResponse: Uint8Array | undefined;
  #bundlesResponse: Uint8Array | undefined;

  constructor(svids: readonly HintedSvid[], own: Bundle, federated: readonly Bundle[]) {
    this.svids = svids;
    this.own = own;
    this.federated = federated;
  }

  /** Differs where the bytes of `bundlesResponse` say something else. */
  get bundlesVersion(): string {
    return [this.own, ...this.federated].map(({ hash }) => hash).join('\n');
  }

  /** Differs where the bytes of `svidResponse` say something else. */
  get svidVersion(): string {
    const serials = this.svids.map(({ hint, svid }) => `${hint} ${svid.serialHex}`);
    return `${serials.join('\n')}\n\n${this.bundlesVersion}`;
  }

  /** An X509SVIDResponse. */
  get svidResponse(): Uint8Array {
    this.#svidResponse ??= toBinary(
      X509SVIDResponseSchema,
      create(X509SVIDResponseSchema, {
        svids: this.svids.map(({ hint, svid }) => ({
          spiffeId: svid.id.toString(),
          x509Svid: Buffer.concat(svid.chain),
          x509SvidKey: svid.key,
          bundle: derOf(this.own),
          hint,
        })),
        federatedBundles: Object.fromEntries(
          this.federated.map((bundle) => [bundle.trustDomain.id, derOf(bundle)]),
        ),
      }),
    );
    return this.#svidResponse;
  }

  /** An X509BundlesResponse. */
  get bundlesResponse(): Uint8Array {
    this.#bundlesResponse ??= toBinary(
      X509BundlesResponseSchema,
      create(X509BundlesResponseSchema, {
        bundles: Object.fromEntries(
          [this.own, ...this.federated].map((bundle) => [bundle.trustDomain.id, derOf(bundle)]),
        ),
      }),
    );
    return this.#bundlesResponse;
  }
}

/** SPIFFE Workload API section 5.2.1: certificates one after the other, without any padding. */
function derOf(bundle: Bundle): Uint8Array<ArrayBuffer> {
  return Buffer.concat(bundle.authorities.map(({ der }) => der));
}
