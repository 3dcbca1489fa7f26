// What a marked cluster needs, so that a site can sync objects of its kinds from there: CRDs, and the rights to
// read the objects and to write their status. Pure.

import { crdOf } from '../../api/documents/crd.ts';
import type { Kind } from '../../api/kind.ts';
import { group } from '../../api/object.ts';
import { type Manifest, ownLabels, trustDomainLabel } from '../../core/kube/manifests/manifest.ts';
import { accountSubject, userSubject } from '../../core/kube/manifests/rbac.ts';
import { clusterSideKind, definitionName } from '../sync/cluster-side-kind.ts';

export interface SyncManifestsOptions {
  readonly trustDomain: string;
  readonly kinds: readonly Kind[];
  /** What the site authenticates as. */
  readonly subject:
    | { readonly kind: 'ServiceAccount'; readonly namespace: string; readonly name: string }
    | { readonly kind: 'User'; readonly name: string };
}

const rbac = 'rbac.authorization.k8s.io';

/** The ClusterRole of a site, and its binding. Each site has its own, because their kinds may differ. */
export function syncRoleName(trustDomain: string): string {
  return `hansa-sync-${trustDomain}`;
}

export function syncManifests(options: SyncManifestsOptions): readonly Manifest[] {
  return [...syncCrds(options.kinds), ...syncRbac(options)];
}

export function syncCrds(kinds: readonly Kind[]): readonly Manifest[] {
  return kinds.map((kind) => {
    const { metadata, spec } = crdOf(clusterSideKind(kind));
    return {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: metadata.name, labels: ownLabels },
      spec,
    };
  });
}

function syncRbac({ trustDomain, kinds, subject }: SyncManifestsOptions): readonly Manifest[] {
  const name = syncRoleName(trustDomain);
  const metadata = { name, labels: { ...ownLabels, [trustDomainLabel]: trustDomain } };
  const plurals = kinds.map(({ plural }) => plural);
  const rules = [
    { apiGroups: [group], resources: plurals, verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: [group],
      resources: plurals.map((plural) => `${plural}/status`),
      verbs: ['update'],
    },
    {
      apiGroups: ['apiextensions.k8s.io'],
      resources: ['customresourcedefinitions'],
      resourceNames: kinds.map(definitionName),
      verbs: ['get'],
    },
  ];
  return [
    { apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata, rules },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
      subjects: [
        subject.kind === 'User'
          ? userSubject(subject.name)
          : accountSubject(subject.namespace, subject.name),
      ],
    },
  ];
}
