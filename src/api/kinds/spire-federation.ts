// The schema of `federation` in a SpireServer: its bundle endpoint, how others reach it, and the trust domains
// that it federates with. The rules hold in the API server (CEL) and in the controller, with the same words.

import { optional, required, s } from '../schema/dsl.ts';
import {
  addressPattern,
  addressRangePattern,
  endpointURLPattern,
  mostEndpointURLLength,
} from '../values/endpoint-url.ts';
import { spiffeIdPattern } from '../values/spiffe-id.ts';
import { namespaceSelector } from './namespace-selector.ts';

/** The part of the value that rules read. */
export interface FederationSpec {
  readonly federatesWith?: readonly { readonly trustDomain?: unknown }[];
}

/** Ports that a SPIRE server has for other things. It does not start if its bundle endpoint takes one of them. */
export const spireServerPorts = { server: 8081, health: 8080, metrics: 9402 } as const;
const takenPorts: readonly unknown[] = Object.values(spireServerPorts);

const hostName = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
const objectName = '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$';

const profile = (description: string) =>
  s.string({ description, enum: ['https_spiffe', 'https_web'] });

const url = (description: string) =>
  s.string({
    description,
    minLength: 9,
    maxLength: mostEndpointURLLength,
    pattern: endpointURLPattern,
    hint: 'an https URL without user information, query and fragment',
  });

const name = (description: string) =>
  s.string({ description, minLength: 1, maxLength: 253, pattern: objectName });

const acme = s.object({
  description: 'SPIRE gets the certificate of its endpoint by ACME.',
  fields: {
    directoryUrl: required(url('The directory of the ACME server.')),
    domainName: required(
      s.string({
        description: 'The name in the certificate, by which others call the endpoint.',
        minLength: 1,
        maxLength: 253,
        pattern: hostName,
      }),
    ),
    email: required(
      s.string({
        description: 'The address of the ACME account.',
        maxLength: 254,
        pattern: '^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}$',
      }),
    ),
    tosAccepted: required(
      s.boolean({ description: 'You accept the terms of service of the ACME server.' }),
    ),
  },
  rules: [
    {
      cel: 'self.tosAccepted',
      message:
        'tosAccepted must be true: read the terms of service of the ACME server and accept them',
      holds: ({ tosAccepted }: { readonly tosAccepted?: unknown }) => tosAccepted === true,
    },
  ],
});

const servingCert = s.object({
  description: 'The certificate of the endpoint is in a Secret.',
  fields: {
    secretName: required(
      name('The Secret with tls.crt and tls.key, in the namespace of the SPIRE server.'),
    ),
    fileSyncInterval: optional(
      s.integer({
        description: 'How often SPIRE looks for a new certificate, in seconds.',
        format: 'int32',
        minimum: 30,
        maximum: 3600,
        default: 300,
      }),
    ),
  },
});

const httpsWeb = s.object({
  description: 'The certificate of the endpoint, for the profile https_web.',
  fields: { acme: optional(acme), servingCert: optional(servingCert) },
  rules: [
    {
      cel: 'has(self.acme) != has(self.servingCert)',
      message: 'set exactly one of acme and servingCert',
      holds: (value: { readonly acme?: unknown; readonly servingCert?: unknown }) =>
        (value.acme === undefined) !== (value.servingCert === undefined),
    },
  ],
});

const bundleEndpoint = s.object({
  description: 'How the server offers its trust bundle.',
  fields: {
    port: optional(
      s.integer({
        description: 'The port of the endpoint.',
        format: 'int32',
        minimum: 1,
        maximum: 65_535,
        default: 8443,
      }),
    ),
    address: optional(
      s.string({
        description: 'The address that the endpoint listens on.',
        maxLength: 45,
        pattern: addressPattern,
        hint: 'an IPv4 or IPv6 address',
        default: '0.0.0.0',
      }),
    ),
    profile: optional(
      s.string({
        description:
          'https_spiffe: by an X.509-SVID of the server. https_web: by a certificate of a public CA.',
        enum: ['https_spiffe', 'https_web'],
        default: 'https_spiffe',
      }),
    ),
    refreshHint: optional(
      s.integer({
        description: 'How often others should fetch the bundle, in seconds.',
        format: 'int32',
        minimum: 60,
        maximum: 3600,
        default: 300,
      }),
    ),
    httpsWeb: optional(httpsWeb),
  },
  rules: [
    {
      cel: "!has(self.profile) || self.profile != 'https_web' || has(self.httpsWeb)",
      message: 'httpsWeb is required when profile is https_web',
      holds: (value: { readonly profile?: unknown; readonly httpsWeb?: unknown }) =>
        value.profile !== 'https_web' || value.httpsWeb !== undefined,
    },
    {
      cel: `!has(self.port) || !(self.port in [${takenPorts.join(', ')}])`,
      message: `port must not be ${takenPorts.join(', ')}: the SPIRE server has them for other things`,
      holds: ({ port }: { readonly port?: unknown }) => !takenPorts.includes(port),
    },
  ],
});

const exposure = s.object({
  description: 'How clients outside the cluster reach the endpoint.',
  fields: {
    type: optional(
      s.string({
        description:
          'Auto: the first of Route, TLSRoute and Ingress that the cluster can serve. None: you expose the Service yourself.',
        enum: ['Auto', 'Route', 'TLSRoute', 'Ingress', 'None'],
        default: 'Auto',
      }),
    ),
    host: optional(
      s.string({
        description:
          'The name by which others call the endpoint. A Route gets one by itself; the others need it.',
        maxLength: 253,
        pattern: hostName,
      }),
    ),
    ingressClassName: optional(name('The class of the Ingress.')),
    gateway: optional(
      s.object({
        description: 'The Gateway of the TLSRoute.',
        fields: {
          name: required(name('Its name.')),
          namespace: optional(name('Its namespace. Default: that of the SPIRE server.')),
        },
      }),
    ),
    termination: optional(
      s.string({
        description:
          'Where TLS ends. With https_spiffe and ACME, and without a Route, it can only end at SPIRE (passthrough).',
        enum: ['passthrough', 'reencrypt'],
      }),
    ),
  },
});

const networkPolicy = s.object({
  description: 'Limits who may connect to the endpoint, by a NetworkPolicy.',
  fields: {
    fromCIDRs: required(
      s.list({
        description: 'The address ranges that may connect.',
        listType: 'set',
        minItems: 1,
        maxItems: 100,
        items: s.string({
          description: 'A prefix, such as 10.0.0.0/8.',
          maxLength: 49,
          pattern: addressRangePattern,
          hint: 'an IPv4 or IPv6 prefix',
        }),
      }),
    ),
  },
});

/** The one judge of relationships: the API server, the controller and the sidecar all ask it. */
export const federatedTrustDomainSchema = s.object({
  description: 'One trust domain, and where its bundle is.',
  fields: {
    trustDomain: required(
      s.string({
        description: 'Its name.',
        minLength: 1,
        maxLength: 255,
        pattern: '^[a-z0-9._-]{1,255}$',
      }),
    ),
    bundleEndpointUrl: required(url('The URL of its bundle endpoint.')),
    bundleEndpointProfile: required(profile('How that endpoint authenticates itself.')),
    endpointSpiffeId: optional(
      s.string({
        description: 'The SPIFFE ID of that endpoint, for the profile https_spiffe.',
        maxLength: 2048,
        pattern: spiffeIdPattern,
        hint: 'a SPIFFE ID',
      }),
    ),
    trustDomainBundle: optional(
      s.string({
        description:
          'Its trust bundle as SPIFFE JSON, for the first contact. SPIRE keeps it fresh afterwards. `hansa spire bootstrap` sets it.',
        maxLength: 262_144,
      }),
    ),
  },
  rules: [
    {
      cel: "self.bundleEndpointProfile != 'https_spiffe' || has(self.endpointSpiffeId)",
      message: 'endpointSpiffeId is required when bundleEndpointProfile is https_spiffe',
      holds: (value: {
        readonly bundleEndpointProfile?: unknown;
        readonly endpointSpiffeId?: unknown;
      }) => value.bundleEndpointProfile !== 'https_spiffe' || value.endpointSpiffeId !== undefined,
    },
  ],
});

export const federationSchema = (maxFederatedClusters: number) =>
  s.object({
    description: 'The federation of the server with other trust domains.',
    fields: {
      enabled: optional(
        s.boolean({
          description:
            'False turns federation off and keeps its settings and the bundles of others for later.',
          default: true,
        }),
      ),
      bundleEndpoint: required(bundleEndpoint),
      exposure: optional(exposure),
      networkPolicy: optional(networkPolicy),
      namespaceSelector: optional(
        namespaceSelector(
          'The namespaces whose workloads may federate. Without it, those of all namespaces may.',
        ),
      ),
      withholdStaleBundles: optional(
        s.boolean({
          description:
            'Take a bundle that was not refreshed for an hour from the server. Otherwise SPIRE uses it on.',
          default: false,
        }),
      ),
      federatesWith: optional(
        s.list({
          description: 'The trust domains that the server federates with.',
          listType: 'map',
          keys: ['trustDomain'],
          maxItems: maxFederatedClusters,
          items: federatedTrustDomainSchema,
        }),
      ),
    },
  });
