// The Cluster object that a command registers, from a kubeconfig and the answers of the API server.
// Pure.

import type { Cluster } from '../../../api/kinds/cluster.ts';
import { apiVersion, type JsonObject } from '../../../api/object.ts';
import type { KubeEndpoint } from '../kube-client.ts';

export interface Registration {
  readonly name: string;
  readonly endpoint: KubeEndpoint;
  readonly issuer: string;
  /** Of the API server; empty: those that the Cluster has by default. */
  readonly audiences: readonly string[];
  readonly mode: 'jwks' | 'tokenreview' | 'hybrid' | undefined;
  readonly local: boolean | undefined;
  /** The registered Cluster of this name. It keeps what the flags do not say. */
  readonly known: Cluster | undefined;
}

/** As `spec.apiServer` has it. */
export function serverOf({ server }: KubeEndpoint): string {
  return server.href.replace(/\/+$/, '');
}

export function clusterObject(registration: Registration): JsonObject {
  const { name, endpoint, issuer, audiences, known } = registration;
  const mode = registration.mode ?? known?.spec.validation?.mode;
  const local = registration.local ?? known?.spec.local;
  const isDefault = audiences.length === 0 || (audiences.length === 1 && audiences[0] === issuer);
  const { caBundle, tlsServerName, proxyURL } = endpoint;
  return {
    apiVersion,
    kind: 'Cluster',
    metadata: { name },
    spec: {
      issuer,
      apiServer: serverOf(endpoint),
      ...(caBundle === undefined ? {} : { caBundle }),
      ...(tlsServerName === undefined ? {} : { tlsServerName }),
      ...(proxyURL === undefined ? {} : { proxyURL: proxyURL.href.replace(/\/+$/, '') }),
      ...(isDefault ? {} : { apiAudiences: [...audiences] }),
      ...(local === true ? { local } : {}),
      ...(mode === undefined ? {} : { validation: { mode } }),
    },
  };
}
