// Gives a cluster the trust bundle of another trust domain: in its SpireServer, if the site operates the relationship
// from there, or in a ClusterFederatedTrustDomain, where the cluster serves that kind.

import { spireGroup, spireServerName } from '../../api/kinds/spire-server.ts';
import { isObject } from '../../api/schema/json.ts';
import { type JsonObject, version } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import type { SpireServerSpec } from '../spire/read-spire-server.ts';
import {
  federatedTrustDomainKind,
  federatedTrustDomainVersion,
  isOwnObject,
  objectNameOf,
} from '../spire-relationships/relationships.ts';

export type Peer = Omit<Relationship, 'from' | 'bundle'> & { readonly bundle: string };

export interface Target {
  readonly context: string;
  readonly kube: KubeClient;
  readonly spec: SpireServerSpec;
}

export interface Written {
  readonly context: string;
  readonly trustDomain: string;
  /** KIND NAME. */
  readonly object: string;
}

interface FederatedTrustDomain extends KubeObject {
  readonly spec?: { readonly trustDomain?: unknown; readonly className?: unknown };
}

const collection = `/apis/${federatedTrustDomainVersion}/clusterfederatedtrustdomains`;
const serverPath = kubePath`/apis/${spireGroup}/${version}/spireservers/${spireServerName}`;
/** Others may change the SpireServer at the same time. */
const attempts = 5;

export async function writeBootstrap(target: Target, peer: Peer): Promise<Written> {
  const { context, kube } = target;
  const { trustDomain } = peer;
  const objects = await federatedTrustDomains(kube);
  const known = (objects ?? []).filter((each) => isAbout(each, target, peer));
  const ofUser = known.find((each) => !isOwnObject(each));
  // The site writes its object from federatesWith, and would undo a bundle there that differs from the SpireServer.
  const isDeclared = target.spec.federation?.federatesWith?.some(
    (each) => each.trustDomain === trustDomain,
  );
  const isOfServer = objects === undefined || (ofUser === undefined && isDeclared === true);
  if (isOfServer && (await writeToServer(kube, peer))) {
    return { context, trustDomain, object: `SpireServer ${spireServerName}` };
  }
  if (objects === undefined) {
    throw new HansaError(
      'HANSA_INVALID',
      'The SpireServer CRD of the cluster has no field for a trust bundle. Install spire-controller-manager with its ClusterFederatedTrustDomain, or set the bundle by hand: spire-server bundle set.',
    );
  }
  const name = await writeObject(target, peer, ofUser ?? known[0]);
  return { context, trustDomain, object: `${federatedTrustDomainKind} ${name}` };
}

/** Of our class, and of this trust domain. */
function isAbout(
  { spec: found }: FederatedTrustDomain,
  { spec: { className = '' } }: Target,
  { trustDomain }: Peer,
): boolean {
  return found?.trustDomain === trustDomain && (found.className ?? '') === className;
}

/** Undefined where the cluster does not serve the kind. */
async function federatedTrustDomains(
  kube: KubeClient,
): Promise<readonly FederatedTrustDomain[] | undefined> {
  try {
    return await kube.list<FederatedTrustDomain>(collection);
  } catch (error) {
    if (error instanceof KubeStatusError && error.status === 404) return undefined;
    throw error;
  }
}

/** Resolves to the name of the object. */
async function writeObject(
  { kube, spec: { className } }: Target,
  peer: Peer,
  known: FederatedTrustDomain | undefined,
): Promise<string> {
  if (known !== undefined) {
    const { name } = known.metadata;
    // Its endpoint stays as the user wrote it.
    const path = `${collection}/${encodeURIComponent(name)}`;
    await kube.patch(path, { spec: { trustDomainBundle: peer.bundle } });
    return name;
  }
  // The name of an object of the site stays free: the trust domain may come into federatesWith later.
  const name = `bootstrap-${objectNameOf(peer.trustDomain)}`;
  const fields: JsonObject = {
    trustDomain: peer.trustDomain,
    bundleEndpointURL: peer.bundleEndpointURL,
    bundleEndpointProfile:
      peer.profile === 'https_web'
        ? { type: 'https_web' }
        : { type: 'https_spiffe', endpointSPIFFEID: peer.endpointSpiffeID ?? '' },
    trustDomainBundle: peer.bundle,
    ...(className !== undefined && { className }),
  };
  await kube.create(collection, {
    apiVersion: federatedTrustDomainVersion,
    kind: federatedTrustDomainKind,
    metadata: { name },
    spec: fields,
  });
  return name;
}

interface ServerObject extends KubeObject {
  readonly spec?: { readonly federation?: { readonly federatesWith?: readonly unknown[] } };
}

/** Resolves to false where the CRD of another operator has no field for the bundle. */
async function writeToServer(kube: KubeClient, peer: Peer): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    const object = await kube.get<ServerObject>(serverPath);
    const { federation } = object.spec ?? {};
    const list = federation?.federatesWith ?? [];
    const isPeer = (each: unknown): boolean =>
      isObject(each) && each['trustDomain'] === peer.trustDomain;
    const entry = {
      bundleEndpointUrl: peer.bundleEndpointURL,
      bundleEndpointProfile: peer.profile,
      ...(peer.endpointSpiffeID !== undefined && { endpointSpiffeId: peer.endpointSpiffeID }),
      // An entry that is there keeps its endpoint.
      ...(list.find(isPeer) as object | undefined),
      trustDomain: peer.trustDomain,
      trustDomainBundle: peer.bundle,
    };
    const federatesWith = [...list.filter((each) => !isPeer(each)), entry];
    try {
      const stored = await kube.replace<ServerObject>(serverPath, {
        ...object,
        spec: { ...object.spec, federation: { ...federation, federatesWith } },
      });
      const kept = stored.spec?.federation?.federatesWith?.find(isPeer);
      return isObject(kept) && typeof kept['trustDomainBundle'] === 'string';
    } catch (error) {
      const isConflict = error instanceof KubeStatusError && error.status === 409;
      if (!isConflict || attempt === attempts) throw error;
    }
  }
}
