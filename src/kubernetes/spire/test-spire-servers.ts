// SpireServers for tests.

import type { ExposureType } from './compile-exposure.ts';
import type { ServerFacts } from './compile-objects.ts';
import { readSpireServer, type SpireServerSpec } from './read-spire-server.ts';

type Fields = Readonly<Record<string, unknown>>;

export const namespace = 'spire';

export const peerDomain = {
  trustDomain: 'b.example',
  bundleEndpointUrl: 'https://federation.b.example/',
  bundleEndpointProfile: 'https_spiffe',
  endpointSpiffeId: 'spiffe://b.example/spire/server',
} as const;

export const acme = {
  directoryUrl: 'https://acme.example/directory',
  domainName: 'federation.a.example',
  email: 'ops@a.example',
  tosAccepted: true,
} as const;

export function spireServer(federation?: Fields, spec: Fields = {}): Fields {
  return {
    apiVersion: 'operator.openshift.io/v1alpha1',
    kind: 'SpireServer',
    metadata: { name: 'cluster' },
    spec: {
      trustDomain: 'a.example',
      clusterName: 'a',
      ...spec,
      ...(federation !== undefined && { federation }),
    },
  };
}

export const serverFacts = (served: ReadonlySet<ExposureType>): ServerFacts => ({
  namespace,
  uid: '11111111-2222-3333-4444-555555555555',
  served,
  image: 'spire-server:1',
  sidecarImage: undefined,
});

export function specOf(federation?: Fields, spec: Fields = {}): SpireServerSpec {
  const read = readSpireServer(spireServer(federation, spec));
  if (read.spec === undefined) throw new Error(read.problems.join());
  return read.spec;
}

/** All forms of a condition. */
export const namespaceSelector = {
  matchLabels: { federate: 'yes', 'example.com/tier': '' },
  matchExpressions: [
    { key: 'team', operator: 'In', values: ['shop', 'web'] },
    { key: 'stage', operator: 'NotIn', values: ['dev'] },
    { key: 'example.com/owner', operator: 'Exists' },
    { key: 'locked', operator: 'DoesNotExist' },
  ],
} as const;

export const limitedFederation = { bundleEndpoint: {}, namespaceSelector } as const;

/** With every profile, and with nothing but what is required. */
export const federations: Readonly<Record<string, Fields>> = {
  'https_spiffe by default': { bundleEndpoint: {} },
  https_spiffe: {
    bundleEndpoint: { profile: 'https_spiffe', port: 9443, address: '::', refreshHint: 60 },
    federatesWith: [peerDomain],
  },
  'https_web by ACME': { bundleEndpoint: { profile: 'https_web', httpsWeb: { acme } } },
  'https_web by a serving certificate': {
    bundleEndpoint: {
      profile: 'https_web',
      httpsWeb: { servingCert: { secretName: 'federation-tls', fileSyncInterval: 30 } },
    },
    federatesWith: [
      {
        trustDomain: 'c.example',
        bundleEndpointUrl: 'https://c.example:8443/bundle',
        bundleEndpointProfile: 'https_web',
      },
    ],
  },
};

const { endpointSpiffeId: _id, ...spiffeless } = peerDomain;
const { domainName: _name, ...nameless } = acme;

export const many = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ ...peerDomain, trustDomain: `t${at}.example` }));

/** What breaks a rule, and the field and words of the problem. Both the API server and the controller refuse it. */
export const refusedFederations: readonly (readonly [
  rule: string,
  federation: Fields,
  problem: RegExp,
])[] = [
  [
    'https_web without its settings',
    { bundleEndpoint: { profile: 'https_web' } },
    /^spec\.federation\.bundleEndpoint: .*httpsWeb is required when profile is https_web/,
  ],
  [
    'ACME and a serving certificate at once',
    {
      bundleEndpoint: {
        profile: 'https_web',
        httpsWeb: { acme, servingCert: { secretName: 's' } },
      },
    },
    /^spec\.federation\.bundleEndpoint\.httpsWeb: .*exactly one of acme and servingCert/,
  ],
  [
    'neither ACME nor a serving certificate',
    { bundleEndpoint: { profile: 'https_web', httpsWeb: {} } },
    /^spec\.federation\.bundleEndpoint\.httpsWeb: .*exactly one of acme and servingCert/,
  ],
  [
    'https_spiffe without the SPIFFE ID of the endpoint',
    { bundleEndpoint: {}, federatesWith: [spiffeless] },
    /^spec\.federation\.federatesWith\[0\]: .*endpointSpiffeId is required/,
  ],
  [
    'more trust domains than the limit',
    { bundleEndpoint: {}, federatesWith: many(51) },
    /^spec\.federation\.federatesWith: .*50/,
  ],
  [
    'its own trust domain',
    { bundleEndpoint: {}, federatesWith: [{ ...peerDomain, trustDomain: 'a.example' }] },
    /^spec\b.*a trust domain cannot federate with itself/,
  ],
  [
    'a URL without TLS',
    {
      bundleEndpoint: {},
      federatesWith: [{ ...peerDomain, bundleEndpointUrl: 'http://b.example/' }],
    },
    /^spec\.federation\.federatesWith\[0\]\.bundleEndpointUrl: /,
  ],
  [
    'a URL with user information',
    {
      bundleEndpoint: {},
      federatesWith: [{ ...peerDomain, bundleEndpointUrl: 'https://user:pass@b.example/' }],
    },
    /^spec\.federation\.federatesWith\[0\]\.bundleEndpointUrl: /,
  ],
  ...[
    'https://b.example:65536/',
    'https://b.example:8443x/',
    'https://[::1/',
    'https://%zz/',
    'https://b.example/%zz',
    'https://256.1.1.1/',
  ].map(
    (bundleEndpointUrl) =>
      [
        `the URL ${bundleEndpointUrl}`,
        { bundleEndpoint: {}, federatesWith: [{ ...peerDomain, bundleEndpointUrl }] },
        /^spec\.federation\.federatesWith\[0\]\.bundleEndpointUrl: /,
      ] as const,
  ),
  ...['spiffe://b.example/..', 'spiffe://b.example/./a', 'spiffe://b.example/a/../b'].map(
    (endpointSpiffeId) =>
      [
        `the SPIFFE ID ${endpointSpiffeId}`,
        { bundleEndpoint: {}, federatesWith: [{ ...peerDomain, endpointSpiffeId }] },
        /^spec\.federation\.federatesWith\[0\]\.endpointSpiffeId: /,
      ] as const,
  ),
  [
    'an address that is none',
    { bundleEndpoint: { address: '256.0.0.1' } },
    /^spec\.federation\.bundleEndpoint\.address: /,
  ],
  ...[8080, 8081, 9402].map(
    (port) =>
      [
        `port ${port}, which the server has for something else`,
        { bundleEndpoint: { port } },
        /^spec\.federation\.bundleEndpoint: .*port must not be/,
      ] as const,
  ),
  [
    'a range of addresses that is none',
    { bundleEndpoint: {}, networkPolicy: { fromCIDRs: ['999.1.1.1/8'] } },
    /^spec\.federation\.networkPolicy\.fromCIDRs\[0\]: /,
  ],
  [
    'one trust domain twice',
    { bundleEndpoint: {}, federatesWith: [peerDomain, peerDomain] },
    /^spec\.federation\.federatesWith\[1\]: /,
  ],
  [
    'an unknown profile',
    { bundleEndpoint: { profile: 'http' } },
    /^spec\.federation\.bundleEndpoint\.profile: /,
  ],
  [
    'ACME without a domain',
    {
      bundleEndpoint: {
        profile: 'https_web',
        httpsWeb: { acme: nameless },
      },
    },
    /^spec\.federation\.bundleEndpoint\.httpsWeb\.acme\.domainName: /,
  ],
  [
    'ACME without the terms of service',
    {
      bundleEndpoint: {
        profile: 'https_web',
        httpsWeb: { acme: { ...acme, tosAccepted: false } },
      },
    },
    /^spec\.federation\.bundleEndpoint\.httpsWeb\.acme: .*tosAccepted must be true/,
  ],
  [
    'a selector of namespaces that selects by nothing',
    { bundleEndpoint: {}, namespaceSelector: {} },
    /^spec\.federation\.namespaceSelector: .*set matchLabels or matchExpressions/,
  ],
  [
    'a selector of namespaces with values for Exists',
    {
      bundleEndpoint: {},
      namespaceSelector: {
        matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }],
      },
    },
    /^spec\.federation\.namespaceSelector\.matchExpressions\[0\]: .*Exists and DoesNotExist take none/,
  ],
  [
    'a selector of namespaces with In and no values',
    { bundleEndpoint: {}, namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] } },
    /^spec\.federation\.namespaceSelector\.matchExpressions\[0\]: .*In and NotIn need values/,
  ],
  [
    'a selector of namespaces with a value that is no label',
    { bundleEndpoint: {}, namespaceSelector: { matchLabels: { a: 'b,c=d' } } },
    /^spec\.federation\.namespaceSelector\.matchLabels/,
  ],
  [
    'a selector of namespaces with a key of 10 kB',
    { bundleEndpoint: {}, namespaceSelector: { matchLabels: { ['k'.repeat(10_240)]: 'b' } } },
    /^spec\.federation\.namespaceSelector: .*not a label/,
  ],
  ['a port beyond 65535', { bundleEndpoint: { port: 65_536 } }, /bundleEndpoint\.port: /],
  ['no bundle endpoint', {}, /^spec\.federation\.bundleEndpoint: /],
];

/** Texts that would end a string or a block in a configuration file, and one of 10 kB. */
const hostileTexts: Readonly<Record<string, string>> = {
  'a quote': 'b"example',
  'a brace': 'b} plugins {',
  'a newline': 'b\nprofile = "x"',
  '10 kB': 'b'.repeat(10_240),
};

const hostileFields: Readonly<Record<string, (text: string) => Fields>> = {
  'federatesWith[0].trustDomain': (text) => ({
    federatesWith: [{ ...peerDomain, trustDomain: text }],
  }),
  'federatesWith[0].bundleEndpointUrl': (text) => ({
    federatesWith: [{ ...peerDomain, bundleEndpointUrl: `https://${text}/` }],
  }),
  'federatesWith[0].endpointSpiffeId': (text) => ({
    federatesWith: [{ ...peerDomain, endpointSpiffeId: `spiffe://b.example/${text}${text}` }],
  }),
  'exposure.host': (text) => ({ exposure: { host: text } }),
  'bundleEndpoint.httpsWeb.servingCert.secretName': (text) => ({
    bundleEndpoint: { profile: 'https_web', httpsWeb: { servingCert: { secretName: text } } },
  }),
  'bundleEndpoint.httpsWeb.acme.domainName': (text) => ({
    bundleEndpoint: { profile: 'https_web', httpsWeb: { acme: { ...acme, domainName: text } } },
  }),
  'bundleEndpoint.httpsWeb.acme.directoryUrl': (text) => ({
    bundleEndpoint: {
      profile: 'https_web',
      httpsWeb: { acme: { ...acme, directoryUrl: `https://${text}/` } },
    },
  }),
};

/** Each hostile text in each field that could carry it. */
export const hostileFederations: readonly (readonly [
  what: string,
  field: string,
  federation: Fields,
])[] = Object.entries(hostileFields).flatMap(([field, federationOf]) =>
  Object.entries(hostileTexts).map(
    ([what, text]) => [what, field, { bundleEndpoint: {}, ...federationOf(text) }] as const,
  ),
);
