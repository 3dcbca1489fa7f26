// The kind ClusterClaim, in clusters: what a cluster says about itself, such as its ID.

import { defineKind, type ResourceOf } from '../kind.ts';
import { required, s } from '../schema/dsl.ts';
import { clustersGroup } from './federation.ts';

export type ClusterClaim = ResourceOf<typeof clusterClaimKind>;

/** The keys that Hansa reads. */
export const claimKeys = {
  id: 'id.k8s.io',
  clusterSet: 'clusterSet.k8s.io',
  supervisor: 'supervisor.antreaplus.vmware-tanzu.com',
  /** The system namespace of all sites that lead the cluster. */
  namespace: 'namespace.clusters.hansa.dev',
} as const;

const idPattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export const clusterClaimKind = defineKind({
  kind: 'ClusterClaim',
  cluster: {
    group: clustersGroup,
    scope: 'Cluster',
    rules: [
      {
        cel: 'self.metadata.name == self.spec.name.lowerAscii()',
        message:
          'the name of a claim is its key in lower case, such as id.k8s.io, so that a key has one claim',
      },
    ],
  },
  plural: 'clusterclaims',
  singular: 'clusterclaim',
  shortNames: ['claim', 'claims'],
  description:
    'A fact that a cluster states about itself. Hansa reads the claims id.k8s.io (the ID of the cluster in its cluster set), clusterSet.k8s.io, supervisor.antreaplus.vmware-tanzu.com, and namespace.clusters.hansa.dev (the system namespace of the sites that lead the cluster). The key is a field, because names of objects have no upper case. The name of the object is the key in lower case.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'The claim.',
    fields: {
      name: required(
        s.string({
          description: 'The key of the claim, such as id.k8s.io. It cannot change.',
          minLength: 1,
          maxLength: 253,
          pattern: '^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$',
        }),
      ),
      value: required(
        s.string({ description: 'The value of the claim.', minLength: 1, maxLength: 1024 }),
      ),
    },
    rules: [
      {
        cel: 'self.name == oldSelf.name',
        message: 'the key of a claim cannot change: delete the claim and create another one',
        holds: (value: { readonly name?: unknown }, old: { readonly name?: unknown }) =>
          value.name === old.name,
      },
      {
        cel: `self.name != '${claimKeys.id}' || self.value.matches('${idPattern.source}')`,
        message: 'the ID of a cluster is a DNS label, such as app1',
        holds: (value: { readonly name?: unknown; readonly value?: unknown }) =>
          value.name !== claimKeys.id || idPattern.test(String(value.value)),
      },
    ],
  }),
  columns: [
    { name: 'Claim', type: 'string', jsonPath: '.spec.name', description: 'The key.' },
    { name: 'Value', type: 'string', jsonPath: '.spec.value', description: 'The value.' },
  ],
});
