// All objects that a site needs in a member of its cluster set, in the order in which they are created. Pure.

import { crdOf } from '../../api/documents/crd.ts';
import { clusterClaimKind } from '../../api/kinds/cluster-claim.ts';
import { federationKind } from '../../api/kinds/federation.ts';
import { nativeServiceKind } from '../../api/kinds/native-service.ts';
import { policyRecordKind } from '../../api/kinds/policy-record.ts';
import { virtualMachineKind } from '../../api/kinds/virtual-machine.ts';
import { type Manifest, namespaceManifest, ownLabels } from '../../core/kube/manifests/manifest.ts';
import { defaultNamespace } from '../names.ts';
import { defaultPolicyKinds, parsePolicyKinds, type PolicyKind } from '../policies/policy-kinds.ts';
import { claimPolicies } from './claim-policies.ts';
import { fencingPolicies } from './fencing-policies.ts';
import { type LeagueSubject, principalName, rbacManifests } from './rbac-manifests.ts';

export interface LeagueOptions {
  /** Of the site. */
  readonly trustDomain: string;
  /** What the site authenticates as. */
  readonly subject: LeagueSubject;
  /** Of the Lease, the ServiceAccount, Secrets and global copies. Default: hansa-system. */
  readonly namespace?: string;
  /**
   * User names of further sites that lead the cluster. Only for those that the policies do not know by
   * their form: ServiceAccounts outside the system namespace. See `principalsIn`.
   */
  readonly principals?: readonly string[];
  /** In the cluster in which the site reads `Federation`: the Secrets that it names. */
  readonly home?: { readonly secrets: readonly string[] };
  /** False for clusters below Kubernetes 1.30, which do not serve them. Default: true. */
  readonly policies?: boolean;
  /** The kinds of policies that are federated. Default: those of the setting. */
  readonly policyKinds?: readonly PolicyKind[];
}

export function leagueManifests(options: LeagueOptions): readonly Manifest[] {
  const { trustDomain, subject, home, policies = true, principals = [] } = options;
  const namespace = options.namespace ?? defaultNamespace;
  const { policyKinds = parsePolicyKinds(defaultPolicyKinds) } = options;
  const users = [principalName(subject, namespace), ...principals];
  return [
    ...leagueCrds(),
    namespaceManifest(namespace),
    ...rbacManifests({ trustDomain, subject, namespace, policyKinds, secrets: home?.secrets }),
    ...(policies
      ? [...fencingPolicies({ namespace, users, policyKinds }), ...claimPolicies()]
      : []),
  ];
}

/** The CRDs of the kinds in clusters. */
export function leagueCrds(): readonly Manifest[] {
  return [
    clusterClaimKind,
    federationKind,
    nativeServiceKind,
    virtualMachineKind,
    policyRecordKind,
  ].map((kind) => {
    const { metadata, spec } = crdOf(kind);
    return {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: metadata.name, labels: ownLabels },
      spec,
    };
  });
}
