// Compiles the ConfigMaps by which the sidecar of a SPIRE server learns its relationships and reports their state,
// and its rights to them. Pure.

import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { accountSubject, roleWithBinding } from '../../core/kube/manifests/rbac.ts';
import {
  keptMapName,
  relationshipsKey,
  relationshipsMapName,
  type RelationshipsDocument,
  requestText,
  statusMapName,
} from '../spire-relationships/sidecar-contract.ts';
import { federationServiceName, serverLabels, serverName } from './spire-names.ts';

const mapOf = (namespace: string, name: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace, labels: serverLabels },
});

/** The request to the sidecar. */
export const compileRequest = (document: RelationshipsDocument, namespace: string): Manifest => ({
  ...mapOf(namespace, relationshipsMapName),
  data: { [relationshipsKey]: requestText(document) },
});

/** What the sidecar needs to read the request and to answer it. */
export function compileSidecarObjects(namespace: string): readonly Manifest[] {
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
    // The sidecar fills these two.
    mapOf(namespace, statusMapName),
    mapOf(namespace, keptMapName),
  ];
}
