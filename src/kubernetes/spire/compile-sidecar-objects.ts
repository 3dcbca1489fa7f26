// Compiles the ConfigMaps by which the sidecar of a SPIRE server learns its relationships and reports their state,
// and its rights to them. Pure.

import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { accountSubject, roleWithBinding } from '../../core/kube/manifests/rbac.ts';
import {
  keptMapName,
  relationshipsKey,
  relationshipsMapName,
  type RelationshipsDocument,
  statusMapName,
} from './sidecar-contract.ts';
import { federationServiceName, serverLabels, serverName } from './spire-names.ts';

export function compileSidecarObjects(
  document: RelationshipsDocument,
  namespace: string,
): readonly Manifest[] {
  const map = (name: string): Manifest => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace, labels: serverLabels },
  });
  return [
    ...roleWithBinding(
      namespace,
      federationServiceName,
      accountSubject(namespace, serverName),
      {
        apiGroups: [''],
        resources: ['configmaps'],
        resourceNames: [relationshipsMapName],
        verbs: ['get', 'list', 'watch'],
      },
      {
        apiGroups: [''],
        resources: ['configmaps'],
        resourceNames: [statusMapName, keptMapName],
        verbs: ['get', 'update', 'patch'],
      },
    ),
    {
      ...map(relationshipsMapName),
      data: { [relationshipsKey]: `${JSON.stringify(document, undefined, 2)}\n` },
    },
    // The sidecar fills these two.
    map(statusMapName),
    map(keptMapName),
  ];
}
