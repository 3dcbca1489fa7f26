// Reads what a cluster says about its membership: its claims and its Federation.

import { clusterClaimKind } from '../../api/kinds/cluster-claim.ts';
import {
  clustersGroup,
  type Federation,
  federationKind,
  federationName,
} from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { ownLabels } from '../../core/kube/manifests/manifest.ts';
import type { MemberEntry } from '../manifests/membership-manifests.ts';

const base = `/apis/${clustersGroup}/${version}`;
export const claimsPath = `${base}/${clusterClaimKind.plural}`;
export const federationPath = `${base}/${federationKind.plural}/${federationName}`;

export interface FederationObject extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: Federation['spec'];
}

export interface LabelledObject extends KubeObject {
  readonly metadata: KubeObject['metadata'] & {
    readonly labels?: Readonly<Record<string, string>>;
  };
}

/** As a cluster sends it. */
export type ClaimObject = KubeObject & {
  readonly spec?: { readonly name?: unknown; readonly value?: unknown };
};

export interface ClusterFacts {
  /** Values by key. Empty in a cluster without the CRD. */
  readonly claims: ReadonlyMap<string, string>;
  readonly federation: FederationObject | undefined;
}

export async function readFacts(kube: KubeClient): Promise<ClusterFacts> {
  return { claims: await readClaims(kube), federation: await readFederation(kube) };
}

export async function readClaims(kube: KubeClient): Promise<ReadonlyMap<string, string>> {
  const claims = await orMissing(() => kube.list<ClaimObject>(claimsPath));
  return new Map(
    (claims ?? []).flatMap(({ spec }) => {
      const { name, value } = spec ?? {};
      return typeof name === 'string' && typeof value === 'string' ? [[name, value] as const] : [];
    }),
  );
}

/** Undefined where there is none, or no CRD. */
export async function readFederation(kube: KubeClient): Promise<FederationObject | undefined> {
  return orMissing(() => kube.get<FederationObject>(federationPath));
}

export const membersOf = (federation: FederationObject | undefined): readonly MemberEntry[] =>
  federation?.spec.members ?? [];

/** Whether a command of Hansa created it. */
export function hasOwnLabels({ metadata }: LabelledObject): boolean {
  return Object.entries(ownLabels).every(([key, value]) => metadata.labels?.[key] === value);
}

/** Undefined for 404. Explains a missing right, and a credential that the API server rejects. */
export async function orMissing<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof KubeStatusError)) throw error;
    if (error.status === 404) return undefined;
    throw explained(error);
  }
}

/** With the fix, where the user can solve it. */
export function explained(error: KubeStatusError): HansaError {
  if (error.status === 403) {
    return new HansaError(
      'HANSA_FORBIDDEN',
      `Your user of the kubeconfig lacks a right. The API server says: ${error.serverMessage}. Use a kubeconfig of a cluster administrator.`,
      { cause: error },
    );
  }
  if (error.status === 401) {
    return new HansaError(
      'HANSA_UNAUTHENTICATED',
      'The API server rejects the credential of the kubeconfig. Log in to the cluster again.',
      { cause: error },
    );
  }
  return error;
}
