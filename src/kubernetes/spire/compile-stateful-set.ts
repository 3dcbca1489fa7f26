// Compiles the StatefulSet of a SPIRE server. It restarts when server.conf changes, and not when a relationship
// does. Pure.

import { spireServerPorts } from '../../api/kinds/spire-federation.ts';
import type { JsonObject } from '../../api/object.ts';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { spirePaths } from './compile-server-conf.ts';
import type { SpireServerSpec } from './read-spire-server.ts';
import {
  confHashAnnotation,
  federationPortName,
  selectorLabels,
  serverLabels,
  serverName,
} from './spire-names.ts';

export interface StatefulSetFacts {
  readonly namespace: string;
  readonly confHash: string;
  /** Of the SPIRE server. */
  readonly image: string;
  /** The image of Hansa, where the sidecar hands relationships to SPIRE. Undefined: spire-controller-manager does. */
  readonly sidecarImage: string | undefined;
}

export function compileStatefulSet(spec: SpireServerSpec, facts: StatefulSetFacts): Manifest {
  const { namespace, confHash, sidecarImage } = facts;
  const certificate = certificateOf(spec);
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: serverName, namespace, labels: serverLabels },
    spec: {
      replicas: 1,
      serviceName: serverName,
      selector: { matchLabels: selectorLabels },
      template: {
        metadata: { labels: serverLabels, annotations: { [confHashAnnotation]: confHash } },
        spec: {
          serviceAccountName: serverName,
          // SPIRE needs its own identity only.
          enableServiceLinks: false,
          containers: [
            serverContainer(spec, facts),
            ...(sidecarImage === undefined ? [] : [sidecarContainer(sidecarImage)]),
          ],
          volumes: [
            { name: 'config', configMap: { name: serverName } },
            { name: 'socket', emptyDir: {} },
            { name: 'tmp', emptyDir: {} },
            ...(certificate === undefined
              ? []
              : [{ name: 'federation-certs', secret: { secretName: certificate } }]),
          ],
        },
      },
      volumeClaimTemplates: [claimOf(spec)],
    },
  };
}

/** The Secret that SPIRE serves its bundle endpoint with. */
export function certificateOf({ federation }: SpireServerSpec): string | undefined {
  if (federation?.enabled !== true || federation.bundleEndpoint.profile !== 'https_web') {
    return undefined;
  }
  return federation.bundleEndpoint.httpsWeb?.servingCert?.secretName;
}

const lockedDown = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
} as const;

function serverContainer(spec: SpireServerSpec, { image }: StatefulSetFacts): JsonObject {
  const { federation } = spec;
  const isFederated = federation?.enabled === true;
  return {
    name: serverName,
    image,
    // The entry point of SPIRE's image is `spire-server run`. A second `run` would end its flags.
    args: ['-config', '/run/spire/config/server.conf'],
    ports: [
      { name: 'grpc', containerPort: spireServerPorts.server, protocol: 'TCP' },
      { name: 'healthz', containerPort: spireServerPorts.health, protocol: 'TCP' },
      { name: 'metrics', containerPort: spireServerPorts.metrics, protocol: 'TCP' },
      ...(isFederated
        ? [
            {
              name: federationPortName,
              containerPort: federation.bundleEndpoint.port,
              protocol: 'TCP',
            },
          ]
        : []),
    ],
    livenessProbe: probe('/live', { periodSeconds: 60, timeoutSeconds: 3, failureThreshold: 2 }),
    readinessProbe: probe('/ready', { periodSeconds: 5, timeoutSeconds: 3 }),
    securityContext: lockedDown,
    volumeMounts: [
      { name: 'config', mountPath: '/run/spire/config', readOnly: true },
      { name: 'spire-data', mountPath: spirePaths.data },
      socketMount,
      { name: 'tmp', mountPath: '/tmp' },
      ...(certificateOf(spec) === undefined
        ? []
        : [{ name: 'federation-certs', mountPath: spirePaths.certificates, readOnly: true }]),
    ],
  };
}

const socketMount = { name: 'socket', mountPath: spirePaths.socketFolder } as const;

function sidecarContainer(image: string): JsonObject {
  return {
    name: 'hansa',
    image,
    args: ['spire-sidecar', '--socket', spirePaths.socket],
    securityContext: lockedDown,
    volumeMounts: [socketMount, { name: 'tmp', mountPath: '/tmp' }],
  };
}

const probe = (path: string, times: JsonObject): JsonObject => ({
  httpGet: { path, port: 'healthz' },
  ...times,
});

function claimOf({ persistence }: SpireServerSpec): JsonObject {
  const { size = '1Gi', accessMode = 'ReadWriteOnce', storageClass } = persistence ?? {};
  return {
    metadata: { name: 'spire-data' },
    spec: {
      accessModes: [accessMode],
      resources: { requests: { storage: size } },
      ...(storageClass !== undefined && { storageClassName: storageClass }),
    },
  };
}
