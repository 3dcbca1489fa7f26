// Compiles the object by which clients outside the cluster reach the bundle endpoint: an OpenShift Route, a
// TLSRoute of the Gateway API, or an Ingress with TLS passthrough, as the cluster offers. Pure.

import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import type { SpireServerSpec } from './read-spire-server.ts';
import { federationPortName, federationServiceName, serverLabels } from './spire-names.ts';

export type ExposureType = 'Route' | 'TLSRoute' | 'Ingress';

/** Newest first. Since Gateway API 1.5, clusters serve v1, and not v1alpha2. */
export const tlsRouteVersions = [
  'gateway.networking.k8s.io/v1',
  'gateway.networking.k8s.io/v1alpha2',
] as const;

export type TlsRouteVersion = (typeof tlsRouteVersions)[number];

export interface ExposureFacts {
  readonly namespace: string;
  /** The types that the cluster serves. */
  readonly served: ReadonlySet<ExposureType>;
  /** The newest version of TLSRoutes that the cluster serves. Default: v1. */
  readonly tlsRouteVersion?: TlsRouteVersion | undefined;
}

/** Of the TLSRoute. */
export const tlsRouteVersionOf = ({
  tlsRouteVersion = tlsRouteVersions[0],
}: Pick<ExposureFacts, 'tlsRouteVersion'>): TlsRouteVersion => tlsRouteVersion;

export type Exposure =
  /** `host` is what others call; a Route gets one from its router. `reencrypts`: others see another certificate. */
  | {
      readonly manifest: Manifest;
      readonly type: ExposureType;
      readonly host: string | undefined;
      readonly reencrypts: boolean;
      readonly problem?: undefined;
    }
  /** Somebody else exposes the Service. */
  | { readonly manifest?: undefined; readonly problem?: undefined }
  /** Why it cannot be exposed, and what to do. */
  | { readonly manifest?: undefined; readonly problem: { reason: string; message: string } };

type Federation = NonNullable<SpireServerSpec['federation']>;

/** In the order in which they are tried: a Route needs no other settings, an Ingress needs a controller with passthrough. */
const order: readonly ExposureType[] = ['Route', 'TLSRoute', 'Ingress'];

export function compileExposure(federation: Federation, facts: ExposureFacts): Exposure {
  const { exposure } = federation;
  const wanted = exposure?.type ?? 'Auto';
  if (wanted === 'None') return {};
  const problem = terminationProblem(federation);
  if (problem !== undefined) return { problem };
  if (wanted !== 'Auto') {
    if (!facts.served.has(wanted)) return { problem: notServed(wanted) };
    return compileOne(wanted, federation, facts);
  }
  const tried = order.filter((type) => facts.served.has(type));
  let first: Exposure | undefined;
  for (const type of tried) {
    const compiled = compileOne(type, federation, facts);
    if (compiled.manifest !== undefined) return compiled;
    first ??= compiled;
  }
  return first ?? { problem: nothingServed };
}

/** Only SPIRE has the certificate for https_spiffe and for ACME, so TLS must end there. */
function terminationProblem(
  federation: Federation,
): { reason: string; message: string } | undefined {
  if (federation.exposure?.termination !== 'reencrypt' || servesCertificate(federation)) {
    return undefined;
  }
  return {
    reason: 'PassthroughNeeded',
    message:
      'spec.federation.exposure.termination is reencrypt, but with https_spiffe and with ACME only SPIRE has the certificate. Use passthrough.',
  };
}

const servesCertificate = ({ bundleEndpoint: { profile, httpsWeb } }: Federation): boolean =>
  profile === 'https_web' && httpsWeb?.servingCert !== undefined;

const notServed = (type: ExposureType) => ({
  reason: 'NotServed',
  message: `spec.federation.exposure.type is ${type}, but the cluster does not serve this kind. Install it, or choose another type.`,
});

const nothingServed = {
  reason: 'NotServed',
  message:
    'The cluster serves neither Route, TLSRoute nor Ingress. Expose the Service yourself and set spec.federation.exposure.type to None.',
};

const needs = (type: ExposureType, field: string, why: string) => ({
  problem: {
    reason: 'ExposureIncomplete',
    message: `An exposure of type ${type} needs spec.federation.exposure.${field}: ${why}`,
  },
});

function compileOne(type: ExposureType, federation: Federation, facts: ExposureFacts): Exposure {
  const { namespace } = facts;
  const { exposure } = federation;
  // Clients of ACME call this name, so it can stand for the host.
  const host = exposure?.host ?? federation.bundleEndpoint.httpsWeb?.acme?.domainName;
  if (type === 'Route') {
    const termination =
      exposure?.termination ?? (servesCertificate(federation) ? 'reencrypt' : 'passthrough');
    return {
      type,
      host,
      manifest: routeOf(namespace, host, termination),
      reencrypts: termination === 'reencrypt',
    };
  }
  if (exposure?.termination === 'reencrypt') {
    return {
      problem: {
        reason: 'PassthroughNeeded',
        message: `spec.federation.exposure.termination is reencrypt, but only a Route can do that: type ${type} passes TLS through. Use passthrough.`,
      },
    };
  }
  if (host === undefined) {
    return needs(type, 'host', 'the name by which other clusters call the bundle endpoint.');
  }
  if (type === 'TLSRoute') {
    const gateway = exposure?.gateway;
    if (gateway === undefined) {
      return needs(type, 'gateway', 'the Gateway with a TLS listener in mode Passthrough.');
    }
    const parent = {
      name: gateway.name,
      ...(gateway.namespace !== undefined && { namespace: gateway.namespace }),
    };
    const manifest = tlsRouteOf(facts, host, parent, federation);
    return { type, host, manifest, reencrypts: false };
  }
  return { type, host, manifest: ingressOf(namespace, host, federation), reencrypts: false };
}

const metadataIn = (namespace: string, annotations?: Readonly<Record<string, string>>) => ({
  name: federationServiceName,
  namespace,
  labels: serverLabels,
  ...(annotations !== undefined && { annotations }),
});

function routeOf(
  namespace: string,
  host: string | undefined,
  termination: 'passthrough' | 'reencrypt',
): Manifest {
  return {
    apiVersion: 'route.openshift.io/v1',
    kind: 'Route',
    metadata: metadataIn(namespace),
    spec: {
      ...(host !== undefined && { host }),
      to: { kind: 'Service', name: federationServiceName, weight: 100 },
      port: { targetPort: federationPortName },
      tls: {
        termination,
        // A redirect would need HTTP, which nothing here serves.
        insecureEdgeTerminationPolicy: 'None',
      },
      wildcardPolicy: 'None',
    },
  };
}

function tlsRouteOf(
  facts: ExposureFacts,
  host: string,
  parent: object,
  { bundleEndpoint: { port } }: Federation,
): Manifest {
  return {
    apiVersion: tlsRouteVersionOf(facts),
    kind: 'TLSRoute',
    metadata: metadataIn(facts.namespace),
    spec: {
      parentRefs: [parent],
      hostnames: [host],
      rules: [{ backendRefs: [{ name: federationServiceName, port }] }],
    },
  };
}

/** The common controllers turn passthrough on by an annotation of their own. */
const passthrough = {
  'nginx.ingress.kubernetes.io/ssl-passthrough': 'true',
  'haproxy.org/ssl-passthrough': 'true',
  'haproxy-ingress.github.io/ssl-passthrough': 'true',
  'traefik.ingress.kubernetes.io/router.tls': 'true',
} as const;

function ingressOf(namespace: string, host: string, federation: Federation): Manifest {
  const className = federation.exposure?.ingressClassName;
  const backend = { service: { name: federationServiceName, port: { name: federationPortName } } };
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: metadataIn(namespace, passthrough),
    spec: {
      ...(className !== undefined && { ingressClassName: className }),
      tls: [{ hosts: [host] }],
      rules: [{ host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }],
    },
  };
}
