// The admission policy of ClusterClaims: a cluster keeps its ID while its Federation refers to it. The rules that
// need no other object are in the CRDs, where Kubernetes 1.27 has them too. Pure.

import { claimKeys } from '../../api/kinds/cluster-claim.ts';
import { clustersGroup, federationKind, federationName } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { policyManifests, text } from './policy.ts';

export function claimPolicies(): readonly Manifest[] {
  return policyManifests({
    name: 'hansa-league-claims',
    failurePolicy: 'Ignore',
    rules: [
      {
        group: clustersGroup,
        version,
        resources: ['clusterclaims'],
        operations: ['UPDATE', 'DELETE'],
      },
    ],
    conditions: {
      'cluster-id': `oldObject.spec.name == ${text(claimKeys.id)}`,
      'change-or-deletion': 'object == null || object.spec.value != oldObject.spec.value',
    },
    params: {
      apiVersion: `${clustersGroup}/${version}`,
      kind: federationKind.kind,
      name: federationName,
    },
    validations: [
      {
        // Without members it is the Federation of a child, which refers to its own cluster.
        expression:
          'size(params.spec.?members.orValue([])) > 0 && !params.spec.members.exists(m, m.clusterID == oldObject.spec.value)',
        message:
          'Federation refers to this cluster by its ID: remove the member from Federation, or in a child Federation itself, before you change or delete the ID',
      },
    ],
  });
}
