// Test fixture: in-memory clusters with policies, whose site runs the part for policies.

import {
  type MemoryCluster,
  MemoryLeague,
  type MemoryLeagueOptions,
} from '../league/test-memory-league.ts';
import { policyAnnotation } from '../names.ts';
import type { PolicySettings } from '../settings.ts';
import type { Resource } from '../../../test/fakes/memory-kube/resource.ts';
import { fieldsOf } from '../../../test/fakes/memory-kube/stored-object.ts';
import { invalid } from '../../../test/fakes/memory-kube/kube-failure.ts';
import { policiesPart } from './policies-part.ts';
import { parsePolicyKinds } from './policy-kinds.ts';
import type { CachedRecord } from './policy-records.ts';
import { recordNameOf } from './policy-ref.ts';
import { replicatedCondition } from './tell-outcome.ts';

export const hourMs = 3_600_000;
const retentionMs = 168 * hourMs;
export const dnsPrefix = 'external-dns.alpha.kubernetes.io';

export const networkPolicies: Resource = {
  group: 'networking.k8s.io',
  version: 'v1',
  plural: 'networkpolicies',
  kind: 'NetworkPolicy',
  isNamespaced: true,
  hasStatus: false,
  hasManagers: true,
  updatesUnconditionally: true,
};

/** A custom resource of the whole cluster. */
export const adminPolicies: Resource = {
  group: 'policy.networking.k8s.io',
  version: 'v1alpha1',
  plural: 'adminnetworkpolicies',
  kind: 'AdminNetworkPolicy',
  isNamespaced: false,
  hasStatus: true,
  hasManagers: true,
  isCustom: true,
};

/** As of a server with another schema. */
export const strictPolicies: Resource = {
  ...adminPolicies,
  prepare: (object) => {
    if (fieldsOf(object['spec'])['priority'] !== 'high') return object;
    throw invalid('AdminNetworkPolicy', ['spec.priority: must be a number']);
  },
};

export const definitions: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  isNamespaced: false,
  hasStatus: false,
};

const kinds = parsePolicyKinds(
  'networking.k8s.io/v1/networkpolicies/NetworkPolicy,policy.networking.k8s.io/v1alpha1/adminnetworkpolicies/AdminNetworkPolicy:cluster',
);

/** Three clusters, joined and led. */
export async function policyLeague(
  over: Partial<MemoryLeagueOptions> & Partial<Pick<PolicySettings, 'retentionMs'>> = {},
): Promise<MemoryLeague> {
  const settings = { kinds, retentionMs, ...over };
  const league = new MemoryLeague({
    ids: ['a', 'b', 'c'],
    resources: [networkPolicies, adminPolicies, definitions],
    policyKinds: kinds,
    parts: ({ member, members, clock }) => [
      policiesPart({ member, members, clock, settings, dnsPrefix }),
    ],
    ...over,
  });
  await league.join();
  for (const cluster of league.clusters) await installCrd(cluster);
  return league;
}

const crdName = `${adminPolicies.plural}.${adminPolicies.group}`;

export async function installCrd(cluster: MemoryCluster): Promise<void> {
  await cluster.apply(definitions.plural, {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: definitions.kind,
    metadata: { name: crdName },
  });
}

/** It waits for its finalizer, which has deleted the policies already. Watches go on. */
export function endCrd(cluster: MemoryCluster): void {
  const deletionTimestamp = '2026-01-01T00:00:00Z';
  cluster.kube.put(definitions.plural, '', crdName, { metadata: { deletionTimestamp } });
  for (const { metadata } of cluster.all(adminPolicies.plural)) {
    cluster.kube.put(adminPolicies.plural, '', metadata.name, undefined);
  }
}

/** As another one of the same name. */
export async function renewCrd(cluster: MemoryCluster): Promise<void> {
  cluster.kube.put(definitions.plural, '', crdName, undefined);
  await installCrd(cluster);
}

/** As a user does. */
export async function deleteCrd(cluster: MemoryCluster): Promise<void> {
  await cluster.remove(definitions.plural, crdName);
  cluster.kube.stopServing(adminPolicies.plural);
}

/** The NetworkPolicy shop/NAME with this text as its content. */
export const policy = (
  content: string,
  name = 'deny',
  annotation: string | undefined = 'true',
) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: {
    name,
    namespace: 'shop',
    ...(annotation !== '' && { annotations: { [policyAnnotation]: annotation } }),
  },
  spec: { podSelector: { matchLabels: { content } } },
});

export const adminPolicy = (priority: unknown, name = 'tenants') => ({
  apiVersion: 'policy.networking.k8s.io/v1alpha1',
  kind: 'AdminNetworkPolicy',
  metadata: { name, annotations: { [policyAnnotation]: 'true' } },
  spec: { priority },
});

interface Spec {
  readonly spec: { readonly podSelector: { readonly matchLabels: { readonly content: string } } };
}

/** The content of shop/NAME in a cluster. */
export function contentIn(cluster: MemoryCluster, name = 'deny'): string | undefined {
  return cluster.find<Spec>('networkpolicies', `shop/${name}`)?.spec.podSelector.matchLabels
    .content;
}

export const contents = (league: MemoryLeague, name = 'deny'): readonly (string | undefined)[] =>
  league.clusters.map((cluster) => contentIn(cluster, name));

/** Of shop/NAME. */
export function recordOf(cluster: MemoryCluster, name = 'deny'): CachedRecord | undefined {
  const { group, plural } = networkPolicies;
  const record = recordNameOf({ group, plural, namespace: 'shop', name });
  return cluster.find<CachedRecord>('policyrecords', record);
}

/** The reason of the condition. */
export function reasonIn(cluster: MemoryCluster, name = 'deny'): string | undefined {
  const conditions = recordOf(cluster, name)?.status?.conditions;
  return conditions?.find(({ type }) => type === replicatedCondition)?.reason;
}
