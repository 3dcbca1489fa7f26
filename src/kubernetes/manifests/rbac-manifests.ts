// The rights of a site in a member of its cluster set: reading what it federates, writing copies, and one Lease.
// In its home cluster also the status of Federation, and the Secrets that Federation names. Pure.

import { clustersGroup, federationName } from '../../api/kinds/federation.ts';
import {
  defaultAccountName,
  type Manifest,
  trustDomainLabel,
} from '../../core/kube/manifests/manifest.ts';
import {
  accountManifest,
  accountSubject,
  roleWithBinding,
  sharedRole,
  tokenManifests,
  userSubject,
} from '../../core/kube/manifests/rbac.ts';
import { policyRecordKind } from '../../api/kinds/policy-record.ts';
import { externalEntityKind } from '../entities/compile-external-entities.ts';
import { mcsGroup } from '../mcs/mcs-objects.ts';
import { leaseName } from '../names.ts';
import { idOfKind, type PolicyKind } from '../policies/policy-kinds.ts';

/** What the site authenticates as. */
export type LeagueSubject =
  | {
      readonly kind: 'ServiceAccount';
      /** Default: the system namespace. */
      readonly namespace?: string;
      /** Default: hansa. */
      readonly name?: string;
    }
  /** Such as the user name that the API server gives to the JWT-SVID of the site. */
  | { readonly kind: 'User'; readonly name: string };

export interface RbacOptions {
  readonly trustDomain: string;
  readonly subject: LeagueSubject;
  readonly namespace: string;
  /** The kinds of policies that are federated. */
  readonly policyKinds: readonly PolicyKind[];
  /** Undefined outside the home cluster. */
  readonly secrets: readonly string[] | undefined;
}

/** The user name in requests of the site. */
export function principalName(subject: LeagueSubject, systemNamespace: string): string {
  if (subject.kind === 'User') return subject.name;
  const { namespace = systemNamespace, name = defaultAccountName } = subject;
  return `system:serviceaccount:${namespace}:${name}`;
}

export function rbacManifests(options: RbacOptions): readonly Manifest[] {
  const { trustDomain, subject, namespace, policyKinds, secrets } = options;
  const rules = [...memberRules, ...policyRules(policyKinds)];
  const account =
    subject.kind === 'User'
      ? undefined
      : { namespace: subject.namespace ?? namespace, name: subject.name ?? defaultAccountName };
  const bound =
    subject.kind === 'User'
      ? userSubject(subject.name)
      : accountSubject(account?.namespace ?? '', account?.name ?? '');
  // An account elsewhere exists already, with the right to renew its token.
  const isOwnAccount = account?.namespace === namespace;
  return [
    ...(isOwnAccount ? [accountManifest(namespace, account.name, trustDomain)] : []),
    ...sharedRole({ name: 'hansa-league-member' }, trustDomain, bound, rules),
    ...sharedRole({ name: 'hansa-league-lease', namespace }, trustDomain, bound, leaseRules),
    ...(isOwnAccount ? ofSite(trustDomain, tokenManifests(namespace, account.name, bound)) : []),
    ...(secrets === undefined
      ? []
      : [
          ...sharedRole({ name: 'hansa-league-supervisor' }, trustDomain, bound, supervisorRules),
          ...secretManifests(namespace, trustDomain, bound, secrets),
        ]),
  ];
}

const read = ['get', 'list', 'watch'] as const;
const write = ['create', 'update', 'delete'] as const;

/** Admission policies limit the writes to copies. */
const memberRules = [
  { apiGroups: [''], resources: ['services'], verbs: [...read, ...write] },
  { apiGroups: [''], resources: ['services/status'], verbs: ['update'] },
  { apiGroups: [''], resources: ['namespaces', 'nodes'], verbs: read },
  {
    apiGroups: ['discovery.k8s.io'],
    resources: ['endpointslices'],
    verbs: [...read, ...write],
  },
  {
    apiGroups: ['discovery.k8s.io'],
    // OpenShift asks for it where endpoints are in the cluster's own networks, as those of local members are.
    resources: ['endpointslices/restricted'],
    verbs: ['create'],
  },
  {
    apiGroups: [clustersGroup],
    resources: ['clusterclaims', 'federations', 'nativeservices', 'virtualmachines'],
    verbs: read,
  },
  { apiGroups: [clustersGroup], resources: ['virtualmachines/status'], verbs: ['update'] },
  { apiGroups: [mcsGroup], resources: ['serviceexports'], verbs: read },
  { apiGroups: [mcsGroup], resources: ['serviceimports'], verbs: [...read, ...write] },
  {
    apiGroups: [externalEntityKind.group],
    resources: [externalEntityKind.plural],
    verbs: [...read, ...write],
  },
  {
    apiGroups: [mcsGroup],
    resources: ['serviceexports/status', 'serviceimports/status'],
    verbs: ['update'],
  },
] as const;

/** Admission policies limit the writes to policies with the annotation. */
function policyRules(kinds: readonly PolicyKind[]): readonly object[] {
  if (kinds.length === 0) return [];
  const groups = [...new Set(kinds.map(({ group }) => group))];
  return [
    ...groups.map((group) => ({
      apiGroups: [group],
      resources: kinds.filter((kind) => kind.group === group).map(({ plural }) => plural),
      verbs: [...read, ...write],
    })),
    // Their UIDs: a policy that went with its CRD was not deleted by a user.
    {
      apiGroups: ['apiextensions.k8s.io'],
      resources: ['customresourcedefinitions'],
      resourceNames: kinds.map(idOfKind),
      verbs: ['get'],
    },
    {
      apiGroups: [clustersGroup],
      resources: [policyRecordKind.plural],
      verbs: [...read, ...write],
    },
    {
      apiGroups: [clustersGroup],
      resources: [`${policyRecordKind.plural}/status`],
      verbs: ['update'],
    },
  ];
}

const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] } as const;

const leaseRules = [
  // RBAC cannot limit create to a name.
  { ...leases, verbs: ['create'] },
  { ...leases, resourceNames: [leaseName], verbs: ['get', 'update'] },
] as const;

const supervisorRules = [
  {
    apiGroups: [clustersGroup],
    resources: ['federations/status'],
    resourceNames: [federationName],
    verbs: ['update'],
  },
] as const;

/** An empty list of names would mean all Secrets. */
function secretManifests(
  namespace: string,
  trustDomain: string,
  subject: object,
  secrets: readonly string[],
): readonly Manifest[] {
  const names = [...new Set(secrets)].filter((name) => name !== '').toSorted();
  if (names.length === 0) return [];
  return ofSite(
    trustDomain,
    roleWithBinding(namespace, `hansa-league-secrets-${trustDomain}`, subject, {
      apiGroups: [''],
      resources: ['secrets'],
      resourceNames: names,
      verbs: ['get'],
    }),
  );
}

const ofSite = (trustDomain: string, manifests: readonly Manifest[]): readonly Manifest[] =>
  manifests.map((manifest) => ({
    ...manifest,
    metadata: {
      ...manifest.metadata,
      labels: { ...manifest.metadata.labels, [trustDomainLabel]: trustDomain },
    },
  }));
