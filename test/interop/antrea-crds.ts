// CRDs of Antrea (group crd.antrea.io) for tests of replicated policies. Antrea's Go module is not on the
// public proxy, so the schemas here are written after the types NetworkPolicy and ClusterNetworkPolicy
// (v1beta1) and ExternalEntity (v1alpha2) of antrea.io/antrea, with the manifests in its folder
// build/charts/antrea/crds as reference. Fields, required fields, limits and enumerations are the same;
// older versions, printer columns and Layer 7 protocols are left out.

import type { CustomResourceDefinition } from './kube-apiserver.ts';

type Schema = Readonly<Record<string, unknown>>;

const text: Schema = { type: 'string' };
const integer: Schema = { type: 'integer' };
const oneOf = (...values: readonly string[]): Schema => ({ type: 'string', enum: values });
const list = (items: Schema): Schema => ({ type: 'array', items });
const object = (
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[] = [],
): Schema => ({ type: 'object', properties, ...(required.length > 0 && { required }) });

const labelValue: Schema = {
  type: 'string',
  pattern: '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$',
};
const selector = object({
  matchExpressions: list(
    object({
      key: text,
      operator: oneOf('In', 'NotIn', 'Exists', 'DoesNotExist'),
      values: list(labelValue),
    }),
  ),
  matchLabels: { type: 'object', additionalProperties: labelValue },
});
const named = object({ name: text, namespace: text }, ['name', 'namespace']);
const ports = list(
  object({
    protocol: oneOf('TCP', 'UDP', 'SCTP'),
    port: { 'x-kubernetes-int-or-string': true },
    endPort: integer,
    sourcePort: integer,
    sourceEndPort: integer,
  }),
);
const ip: Schema = { type: 'string', oneOf: [{ format: 'ipv4' }, { format: 'ipv6' }] };

interface PolicyScope {
  /** What a policy, or one of its rules, applies to. */
  readonly appliedTo: Readonly<Record<string, Schema>>;
  readonly peer: Readonly<Record<string, Schema>>;
}

const peer = {
  podSelector: selector,
  namespaceSelector: selector,
  nodeSelector: selector,
  ipBlock: object({ cidr: { type: 'string', format: 'cidr' } }),
  group: text,
  scope: oneOf('Cluster', 'ClusterSet'),
};
const namespaced: PolicyScope = {
  appliedTo: { podSelector: selector, externalEntitySelector: selector, group: text },
  peer: { ...peer, externalEntitySelector: selector },
};
const clusterWide: PolicyScope = {
  appliedTo: {
    podSelector: selector,
    namespaceSelector: selector,
    nodeSelector: selector,
    group: text,
    serviceAccount: named,
    service: named,
  },
  peer: {
    ...peer,
    namespaces: object({ match: oneOf('Self'), sameLabels: list(text) }),
    serviceAccount: named,
  },
};

const rule = (scope: PolicyScope, peers: Readonly<Record<string, Schema>>): Schema =>
  object(
    {
      name: text,
      action: oneOf('Allow', 'Drop', 'Reject', 'Pass'),
      appliedTo: list(object(scope.appliedTo)),
      ports,
      enableLogging: { type: 'boolean' },
      logLabel: labelValue,
      ...peers,
    },
    ['action'],
  );

const policy = (scope: PolicyScope): Schema =>
  object({
    spec: object(
      {
        tier: text,
        priority: { type: 'number', format: 'float', minimum: 1, maximum: 10_000 },
        appliedTo: list(object(scope.appliedTo)),
        ingress: list(rule(scope, { from: list(object(scope.peer)) })),
        egress: list(
          rule(scope, {
            to: list(object({ ...scope.peer, fqdn: text })),
            toServices: list(object({ name: text, namespace: text, scope: text }, ['name'])),
          }),
        ),
      },
      ['priority'],
    ),
    status: object({
      phase: text,
      observedGeneration: integer,
      currentNodesRealized: integer,
      desiredNodesRealized: integer,
      conditions: list(
        object({ type: text, status: text, lastTransitionTime: text, reason: text, message: text }),
      ),
    }),
  });

const externalEntity = object({
  spec: object({
    endpoints: list(object({ ip, name: text })),
    ports: list(
      object({
        protocol: oneOf('TCP', 'UDP', 'SCTP'),
        port: { 'x-kubernetes-int-or-string': true },
        name: text,
      }),
    ),
    externalNode: text,
  }),
});

interface Names {
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
}

function definition(
  names: Names,
  scope: 'Cluster' | 'Namespaced',
  version: Readonly<Record<string, unknown>>,
): CustomResourceDefinition {
  const crd = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${names.plural}.crd.antrea.io` },
    spec: {
      group: 'crd.antrea.io',
      scope,
      names,
      versions: [{ served: true, storage: true, ...version }],
    },
  };
  return crd;
}

const schema = (openAPIV3Schema: Schema): Schema => ({ openAPIV3Schema });
const withStatus = { subresources: { status: {} } };

/** NetworkPolicy, ClusterNetworkPolicy and ExternalEntity. */
export const antreaCrds: readonly CustomResourceDefinition[] = [
  definition(
    {
      kind: 'NetworkPolicy',
      plural: 'networkpolicies',
      singular: 'networkpolicy',
      shortNames: ['annp'],
    },
    'Namespaced',
    { name: 'v1beta1', schema: schema(policy(namespaced)), ...withStatus },
  ),
  definition(
    {
      kind: 'ClusterNetworkPolicy',
      plural: 'clusternetworkpolicies',
      singular: 'clusternetworkpolicy',
      shortNames: ['acnp'],
    },
    'Cluster',
    { name: 'v1beta1', schema: schema(policy(clusterWide)), ...withStatus },
  ),
  definition(
    {
      kind: 'ExternalEntity',
      plural: 'externalentities',
      singular: 'externalentity',
      shortNames: ['ee'],
    },
    'Namespaced',
    { name: 'v1alpha2', schema: schema(externalEntity) },
  ),
];
