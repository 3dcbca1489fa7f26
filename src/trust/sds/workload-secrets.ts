// Converts the state of a workload to Envoy secrets, with the names that SPIRE uses, so that an Envoy
// configuration for SPIRE works unchanged:
//
//   default                 the default X.509-SVID with its key
//   spiffe://TD/PATH        the X.509-SVID with this identity
//   ROOTCA, spiffe://OWN    the validation context of our own trust domain
//   spiffe://TD             the one of another trust domain; of a peer, only identities in grants
//   ALL                     all validation contexts in one
//
// All contexts use Envoy's SPIFFE validator, which selects authorities by trust domain. With a plain list,
// each authority could sign for all trust domains. Secrets are built once per state, on demand. Pure.

import { createHash } from 'node:crypto';
import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  SecretSchema,
  SPIFFECertValidatorConfigSchema,
  SubjectAltNameMatcherSchema,
} from '../../../proto/gen/sds_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import type { SuppliedSvid } from '../workload/svids/svid-supply.ts';
import type { WorkloadState } from '../workload/workload-state.ts';
import type { PeerIdentities } from '../authorization/peer-identities.ts';

const tls = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3';
export const secretType = `${tls}.Secret`;
const validatorType = `${tls}.SPIFFECertValidatorConfig`;
const validatorName = 'envoy.tls.cert_validator.spiffe';
/** SubjectAltNameMatcher.SanType */
const uriSan = 3;
/** RFC 6761: no trust domain can be called so. */
const nobodysId = 'spiffe://nobody.invalid';

const defaultSvidName = 'default';
const ownBundleName = 'ROOTCA';
const allBundlesName = 'ALL';

export interface NamedSecret {
  readonly name: string;
  /** Of the content: differs where the bytes do. */
  readonly version: string;
  /** A Secret. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

type Content = Pick<MessageInitShape<typeof SecretSchema>, 'type'>;
type Matchers = readonly MessageInitShape<typeof SubjectAltNameMatcherSchema>[];

export class WorkloadSecrets {
  readonly #state: WorkloadState;
  readonly #made = new Map<string, NamedSecret>();
  /** A validation context that rejects all certificates, encoded without a name. */
  #closed: Uint8Array | undefined;

  /** Differs where any secret does. */
  readonly version: string;

  constructor(state: WorkloadState) {
    this.#state = state;
    const shown = JSON.stringify([state.svidVersion, ...state.peers]);
    this.version = digest(Buffer.from(shown));
  }

  /** Undefined where the workload has no such secret. */
  get(name: string): NamedSecret | undefined {
    let made = this.#made.get(name);
    if (made === undefined) {
      const content = this.#make(name);
      // The caller chooses the names, so only names of existing secrets are cached.
      if (content === undefined) return undefined;
      made = named(name, content);
      this.#made.set(name, made);
    }
    return made;
  }

  /**
   * A validation context that rejects all certificates. It replaces the context of a trust domain
   * that a workload may no longer use, because Envoy keeps a secret until it gets another one.
   * Undefined for other names.
   */
  nobody(name: string): NamedSecret | undefined {
    if (!isTrustDomainId(name)) return undefined;
    this.#closed ??= encode(validation([this.#state.own], [exact(nobodysId)]));
    // Concatenated protobuf fields are one message, so a thousand names need only one encoding.
    return withVersion(name, Buffer.concat([encode({ name }), this.#closed]));
  }

  /** Every secret under its own name, for a request without names. */
  all(): readonly NamedSecret[] {
    const { own, federated, svids } = this.#state;
    const names = [
      ...[own, ...federated].map(({ trustDomain }) => trustDomain.id),
      ...svids.map(({ svid }) => svid.id.toString()),
    ];
    return [...new Set(names)].flatMap((name) => this.get(name) ?? []);
  }

  #make(name: string): Content | undefined {
    const { own, federated, svids } = this.#state;
    if (name === defaultSvidName) return svids[0] && certificate(svids[0].svid);
    if (name === ownBundleName || name === own.trustDomain.id) return validation([own], []);
    if (name === allBundlesName) return this.#makeAll();
    const bundle = federated.find(({ trustDomain }) => trustDomain.id === name);
    if (bundle !== undefined) {
      const whom = this.#whom(bundle);
      // With an empty list of matchers, Envoy would accept every identity.
      if (whom !== 'all' && whom.length === 0) return undefined;
      return validation([bundle], whom === 'all' ? [] : whom.map((id) => exact(id)));
    }
    const found = svids.find(({ svid }) => svid.id.toString() === name);
    return found && certificate(found.svid);
  }

  /** Without a peer there are no grants, and the bundle alone decides, as anywhere between trust domains. */
  #whom({ trustDomain }: Bundle): PeerIdentities {
    return this.#state.peers.get(trustDomain.name) ?? 'all';
  }

  /** Where a peer's identities are limited, all others must be named too, as one list is for all. */
  #makeAll(): Content {
    const { own, federated } = this.#state;
    const usable = federated
      .map((bundle) => ({ bundle, whom: this.#whom(bundle) }))
      .filter(({ whom }) => whom === 'all' || whom.length > 0);
    const bundles = [own, ...usable.map(({ bundle }) => bundle)];
    if (usable.every(({ whom }) => whom === 'all')) return validation(bundles, []);
    return validation(bundles, [
      prefix(`${own.trustDomain.id}/`),
      ...usable.flatMap(({ bundle, whom }) =>
        whom === 'all' ? [prefix(`${bundle.trustDomain.id}/`)] : whom.map((id) => exact(id)),
      ),
    ]);
  }
}

const states = new WeakMap<WorkloadState, WorkloadSecrets>();

/** The same for the same state: a push to many Envoys encodes once. */
export function secretsOf(state: WorkloadState): WorkloadSecrets {
  let secrets = states.get(state);
  if (secrets === undefined) {
    secrets = new WorkloadSecrets(state);
    states.set(state, secrets);
  }
  return secrets;
}

function isTrustDomainId(name: string): boolean {
  try {
    const id = SpiffeId.parse(name);
    return id.path === '';
  } catch {
    return false;
  }
}

function named(name: string, content: Content): NamedSecret {
  return withVersion(name, encode({ ...content, name }));
}

function encode(secret: MessageInitShape<typeof SecretSchema>): Uint8Array<ArrayBuffer> {
  return toBinary(SecretSchema, create(SecretSchema, secret));
}

function withVersion(name: string, bytes: Uint8Array<ArrayBuffer>): NamedSecret {
  return { name, version: digest(bytes), bytes };
}

function certificate(svid: SuppliedSvid): Content {
  return {
    type: {
      case: 'tlsCertificate',
      value: {
        certificateChain: inline(svid.chain.map((der) => certificatePem(der)).join('')),
        privateKey: inline(privateKeyPem(svid.key)),
      },
    },
  };
}

function validation(bundles: readonly Bundle[], matchers: Matchers): Content {
  const trustDomains = bundles.map((bundle) => ({
    name: bundle.trustDomain.name,
    trustBundle: inline(bundle.pem),
  }));
  return {
    type: {
      case: 'validationContext',
      value: {
        customValidatorConfig: {
          name: validatorName,
          typedConfig: any(validatorType, SPIFFECertValidatorConfigSchema, { trustDomains }),
        },
        matchTypedSubjectAltNames: [...matchers],
      },
    },
  };
}

function exact(id: string): Matchers[number] {
  return { sanType: uriSan, matcher: { matchPattern: { case: 'exact', value: id } } };
}

function prefix(value: string): Matchers[number] {
  return { sanType: uriSan, matcher: { matchPattern: { case: 'prefix', value } } };
}

function inline(text: string) {
  return { specifier: { case: 'inlineBytes' as const, value: Buffer.from(text) } };
}

function any<S extends DescMessage>(typeUrl: string, schema: S, init: MessageInitShape<S>) {
  return { typeUrl, value: toBinary(schema, create(schema, init)) };
}

/** Enough to tell versions apart, and no more than needs be shown of what holds a key. */
function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}
