// For tests only: states of a workload with real SVIDs and bundles, and a summary of responses.

import { fromBinary } from '@bufbuild/protobuf';
import {
  DeltaDiscoveryResponseSchema,
  DiscoveryResponseSchema,
  type Secret,
  SecretSchema,
  SPIFFECertValidatorConfigSchema,
} from '../../../proto/gen/sds_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { exportPkcs8, generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import type { PeerIdentities } from '../authorization/peer-identities.ts';
import { WorkloadState } from '../workload/workload-state.ts';
import { WorkloadSecrets } from './workload-secrets.ts';

const lubeck = await testSite('lubeck.example');
const bruges = await testSite('bruges.example');
const spire = await testSite('spire.example');

export const bundles = {
  bruges: bruges.authority.bundle,
  spire: spire.authority.bundle,
} satisfies Record<string, Bundle>;

async function svid(path: string) {
  const key = await generateP256(lubeck.random);
  const made = await lubeck.authority.issue({
    spiffeId: SpiffeId.parse(`spiffe://lubeck.example/${path}`),
    publicKey: PublicKey.of(key),
  });
  return { hint: path, svid: { ...made, key: exportPkcs8(key) } };
}

/** A workload with the identities /web and /batch, each time with new keys where asked for. */
export async function secrets(
  parts: {
    readonly federated?: readonly Bundle[];
    readonly peers?: Readonly<Record<string, PeerIdentities>>;
    readonly svids?: Awaited<ReturnType<typeof twoSvids>>;
  } = {},
): Promise<WorkloadSecrets> {
  const svids = parts.svids ?? (await twoSvids());
  const peers = new Map(Object.entries(parts.peers ?? {}));
  return new WorkloadSecrets(
    new WorkloadState([], svids, lubeck.authority.bundle, parts.federated ?? [], peers),
  );
}

export const twoSvids = async () => [await svid('web'), await svid('batch')];

/** What a secret says, in a few words. */
export function shown(secret: Secret): { readonly [field: string]: unknown } {
  const { name, type } = secret;
  if (type.case === 'tlsCertificate') {
    const { certificateChain, privateKey } = type.value;
    const chain = Buffer.from(certificateChain?.specifier.value ?? []).toString();
    const key = Buffer.from(privateKey?.specifier.value ?? []).toString();
    return { name, chain: chain.slice(0, 27), key: key.slice(0, 27) };
  }
  const config = type.value?.customValidatorConfig?.typedConfig?.value ?? new Uint8Array();
  const { trustDomains } = fromBinary(SPIFFECertValidatorConfigSchema, config);
  return {
    name,
    trustDomains: trustDomains.map((one) => one.name),
    matchers: type.value?.matchTypedSubjectAltNames.map(
      ({ matcher }) => `${matcher?.matchPattern.case} ${matcher?.matchPattern.value}`,
    ),
  };
}

export function readState(bytes: Uint8Array | undefined) {
  if (bytes === undefined) return undefined;
  const { versionInfo, nonce, resources } = fromBinary(DiscoveryResponseSchema, bytes);
  return {
    versionInfo,
    nonce,
    secrets: resources.map(({ value }) => shown(fromBinary(SecretSchema, value))),
  };
}

export function readDelta(bytes: Uint8Array | undefined) {
  if (bytes === undefined) return undefined;
  const { nonce, resources, removedResources } = fromBinary(DeltaDiscoveryResponseSchema, bytes);
  return {
    nonce,
    changed: resources.map(({ name }) => name),
    versions: Object.fromEntries(resources.map(({ name, version }) => [name, version])),
    secrets: resources.map(({ resource }) =>
      shown(fromBinary(SecretSchema, resource?.value ?? new Uint8Array())),
    ),
    removed: removedResources,
  };
}
