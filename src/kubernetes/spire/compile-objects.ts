// Compiles all objects of a SPIRE server and of its federation in its cluster, and names those that must not be
// there. Pure: the same SpireServer and facts give the same objects.

import type { JsonObject } from '../../api/object.ts';
import { spireGroup, spireServerName } from '../../api/kinds/spire-server.ts';
import { spireServerPorts } from '../../api/kinds/spire-federation.ts';
import { version } from '../../api/object.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { accountSubject, roleWithBinding } from '../../core/kube/manifests/rbac.ts';
import {
  compileExposure,
  type Exposure,
  type ExposureFacts,
  tlsRouteVersionOf,
} from './compile-exposure.ts';
import { compileRequest, compileSidecarObjects } from './compile-sidecar-objects.ts';
import { compileServerConf } from './compile-server-conf.ts';
import { compileStatefulSet, type StatefulSetFacts } from './compile-stateful-set.ts';
import type { SpireServerSpec } from './read-spire-server.ts';
import type { RelationshipsDocument } from '../spire-relationships/sidecar-contract.ts';
import {
  federationPortName,
  federationServiceName,
  selectorLabels,
  serverLabels,
  serverName,
} from './spire-names.ts';

export interface ServerFacts extends ExposureFacts, Omit<StatefulSetFacts, 'confHash'> {
  /** Of the SpireServer. All objects go with it. */
  readonly uid: string;
  /** For the sidecar. Undefined: spire-controller-manager hands relationships to SPIRE. */
  readonly relationships?: RelationshipsDocument | undefined;
}

export interface ServerObjects {
  /** The request to the sidecar, which does not depend on the others. Empty without a sidecar. */
  readonly request: readonly Manifest[];
  /** In the order in which they are applied. */
  readonly wanted: readonly Manifest[];
  /** What only a federation needs, and this server must not have. */
  readonly unwanted: readonly Manifest[];
  /** Undefined without federation. */
  readonly exposure: Exposure | undefined;
  readonly confHash: string;
}

export function compileObjects(spec: SpireServerSpec, facts: ServerFacts): ServerObjects {
  const { namespace, uid } = facts;
  const conf = compileServerConf(spec, namespace);
  const federation = spec.federation?.enabled === true ? spec.federation : undefined;
  const exposure = federation && compileExposure(federation, facts);
  const policy = federation && networkPolicyOf(namespace, federation);
  const wanted: readonly Manifest[] = [
    accountOf(namespace),
    ...rightsOf(spec, namespace),
    ...clusterRightsOf(namespace),
    bundleMapOf(spec, namespace),
    confMapOf(namespace, conf.text),
    serverServiceOf(namespace),
    ...(federation === undefined ? [] : [federationServiceOf(namespace, federation)]),
    ...(policy === undefined ? [] : [policy]),
    ...(exposure?.manifest === undefined ? [] : [exposure.manifest]),
    ...(facts.relationships === undefined ? [] : compileSidecarObjects(namespace)),
    compileStatefulSet(spec, { ...facts, confHash: conf.hash }),
  ].map((manifest) => ownedBy(manifest, uid));
  const kept = new Set(wanted.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
  const request =
    facts.relationships === undefined ? [] : [compileRequest(facts.relationships, namespace)];
  return {
    request: request.map((manifest) => ownedBy(manifest, uid)),
    wanted,
    unwanted: ofFederation(facts).filter(
      ({ kind, metadata }) => !kept.has(`${kind}/${metadata.name}`),
    ),
    exposure,
    confHash: conf.hash,
  };
}

/** The garbage collector deletes it with the SpireServer. */
export function ownedBy(manifest: Manifest, uid: string): Manifest {
  const reference = {
    apiVersion: `${spireGroup}/${version}`,
    kind: 'SpireServer',
    name: spireServerName,
    uid,
    controller: true,
  };
  return {
    ...manifest,
    metadata: { ...manifest.metadata, ownerReferences: [reference] },
  } as Manifest;
}

/** Everything that only a federation has, of the kinds that the cluster serves. */
function ofFederation(facts: ExposureFacts): readonly Manifest[] {
  const { namespace, served } = facts;
  const metadata = { name: federationServiceName, namespace };
  return [
    { apiVersion: 'v1', kind: 'Service', metadata },
    { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata },
    ...(served.has('Route')
      ? [{ apiVersion: 'route.openshift.io/v1', kind: 'Route', metadata }]
      : []),
    ...(served.has('TLSRoute')
      ? [{ apiVersion: tlsRouteVersionOf(facts), kind: 'TLSRoute', metadata }]
      : []),
    ...(served.has('Ingress')
      ? [{ apiVersion: 'networking.k8s.io/v1', kind: 'Ingress', metadata }]
      : []),
  ];
}

const metadataOf = (namespace: string, name: string) => ({ name, namespace, labels: serverLabels });

const accountOf = (namespace: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: metadataOf(namespace, serverName),
});

/** SPIRE publishes its bundle in one ConfigMap. */
const rightsOf = ({ bundleConfigMap }: SpireServerSpec, namespace: string): readonly Manifest[] =>
  roleWithBinding(namespace, serverName, accountSubject(namespace, serverName), {
    apiGroups: [''],
    resources: ['configmaps'],
    resourceNames: [bundleConfigMap],
    verbs: ['get', 'patch'],
  });

/** For node attestation by projected tokens of ServiceAccounts. */
function clusterRightsOf(namespace: string): readonly Manifest[] {
  const name = `${serverName}-${namespace}`;
  const rbac = 'rbac.authorization.k8s.io';
  const metadata = { name, labels: serverLabels };
  return [
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRole',
      metadata,
      rules: [
        { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
        { apiGroups: [''], resources: ['nodes', 'pods'], verbs: ['get'] },
      ],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
      subjects: [accountSubject(namespace, serverName)],
    },
  ];
}

/** SPIRE fills it. */
const bundleMapOf = ({ bundleConfigMap }: SpireServerSpec, namespace: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: metadataOf(namespace, bundleConfigMap),
});

const confMapOf = (namespace: string, text: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: metadataOf(namespace, serverName),
  data: { 'server.conf': text },
});

const serviceOf = (namespace: string, name: string, port: JsonObject): Manifest => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: metadataOf(namespace, name),
  spec: { type: 'ClusterIP', selector: selectorLabels, ports: [{ protocol: 'TCP', ...port }] },
});

const serverServiceOf = (namespace: string): Manifest =>
  serviceOf(namespace, serverName, {
    name: 'grpc',
    port: 443,
    targetPort: spireServerPorts.server,
  });

type Federation = NonNullable<SpireServerSpec['federation']>;

const federationServiceOf = (
  namespace: string,
  { bundleEndpoint: { port } }: Federation,
): Manifest =>
  serviceOf(namespace, federationServiceName, {
    name: federationPortName,
    port,
    targetPort: port,
  });

/** It limits the bundle endpoint only: agents and probes reach the other ports as before. */
function networkPolicyOf(namespace: string, federation: Federation): Manifest | undefined {
  const { networkPolicy, bundleEndpoint } = federation;
  if (networkPolicy === undefined) return undefined;
  const port = (number: number) => ({ protocol: 'TCP', port: number });
  const others = [spireServerPorts.server, spireServerPorts.health, spireServerPorts.metrics];
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadataOf(namespace, federationServiceName),
    spec: {
      podSelector: { matchLabels: selectorLabels },
      policyTypes: ['Ingress'],
      ingress: [
        { ports: others.map(port) },
        {
          ports: [port(bundleEndpoint.port)],
          from: networkPolicy.fromCIDRs.map((cidr) => ({ ipBlock: { cidr } })),
        },
      ],
    },
  };
}
