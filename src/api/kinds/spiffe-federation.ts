// The kind SPIFFEFederation: another trust domain whose SVIDs this site can verify.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type SPIFFEFederation = ResourceOf<typeof spiffeFederationKind>;

/** The label of federations that peering keeps: their bundles go only where a grant lets them. */
export const peerLabel = 'hansa.dev/peer';

/** As many characters as a bundle may have bytes; see core/identity/bundle/spiffe-bundle.ts. */
const maxBundleCharacters = 262_144;

const bundleDocument =
  'A bundle in the SPIFFE format: a JWK Set with x5c for each X.509 authority. `hansa trust bundle show` and `spire-server bundle show -format spiffe` print one.';

const endpointURL = s.string({
  description:
    'The https URL of the endpoint, without user and password, for example https://bruges.example:8443/.',
  maxLength: 2048,
  // The plane rejects a user and password (trust/federation/admit-federation.ts). The pattern does not, because its error message repeats the value.
  pattern: '^https://[^\\s/?#]+(/[^\\s#]*)?$',
  hint: 'write an https URL, such as https://bruges.example:8443/',
});

export const spiffeFederationKind = defineKind({
  kind: 'SPIFFEFederation',
  plural: 'spiffefederations',
  singular: 'spiffefederation',
  shortNames: ['sf'],
  description:
    'A trust domain that this site trusts. The object has the name of the trust domain. The bundle of the trust domain contains the authorities that sign its SVIDs. The site refreshes the bundle from its source. Deleting the object ends the trust at once.',
  names: 'trust-domain',
  auditName: 'spiffe.federation',
  // Without the label a federation would stay when its peer is revoked, and be trusted without a peer.
  guardedFields: [{ field: `metadata.labels[${peerLabel}]`, subresource: 'peer' }],
  specRequired: true,
  spec: s.object({
    description: 'Where the bundle comes from.',
    fields: {
      bundleSource: required(
        s.object({
          description: 'Exactly one source.',
          fields: {
            httpsSpiffe: optional(
              s.object({
                description:
                  'A bundle endpoint that authenticates with an SVID (SPIFFE Federation, profile https_spiffe).',
                fields: {
                  bundleEndpointURL: required(endpointURL),
                  // Not required by the schema, but by the rule below: it can tell what to write.
                  endpointSpiffeID: optional(
                    s.string({
                      description:
                        'The SPIFFE ID of the endpoint: spiffe://TRUST-DOMAIN/hansa/site for a Hansa site, spiffe://TRUST-DOMAIN/spire/server for SPIRE.',
                      maxLength: 2048,
                      pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
                    }),
                  ),
                  bundleBootstrap: required(
                    s.string({
                      description: `The first bundle, which authenticates the first fetch. After that, the site does not use it unless you run \`hansa trust bundle bootstrap\`. ${bundleDocument}`,
                      minLength: 1,
                      maxLength: maxBundleCharacters,
                    }),
                  ),
                },
                rules: [
                  {
                    cel: 'has(self.endpointSpiffeID)',
                    message:
                      'endpointSpiffeID must be set to the SPIFFE ID of the endpoint: spiffe://TRUST-DOMAIN/hansa/site for a Hansa site, spiffe://TRUST-DOMAIN/spire/server for SPIRE. For an endpoint with a Web PKI certificate, use httpsWeb',
                    holds: (value: { readonly endpointSpiffeID?: unknown }) =>
                      value.endpointSpiffeID !== undefined,
                  },
                ],
              }),
            ),
            httpsWeb: optional(
              s.object({
                description:
                  'A bundle endpoint that authenticates with a certificate for its name, as websites do (SPIFFE Federation, profile https_web).',
                fields: {
                  bundleEndpointURL: required(endpointURL),
                  caBundle: optional(
                    s.string({
                      description:
                        'PEM certificates of a private CA that signs the certificate of the endpoint. If set, the site does not trust public CAs for this endpoint.',
                      minLength: 1,
                      maxLength: 131_072,
                    }),
                  ),
                  pinnedKeys: optional(
                    s.list({
                      description:
                        'Pinned keys, in addition to the verification of the name: the certificate of the endpoint, or of one of its issuers, must have one of these keys. The format is that of HTTP Public Key Pinning: sha256/ and the base64 of the SHA-256 of the SubjectPublicKeyInfo.',
                      listType: 'set',
                      minItems: 1,
                      maxItems: 16,
                      items: s.string({
                        description: 'One key.',
                        maxLength: 51,
                        pattern: '^sha256/[A-Za-z0-9+/]{43}=$',
                      }),
                    }),
                  ),
                },
              }),
            ),
            static: optional(
              s.object({
                description: 'A static bundle. It never becomes stale.',
                fields: {
                  bundle: required(
                    s.string({
                      description: bundleDocument,
                      minLength: 1,
                      maxLength: maxBundleCharacters,
                    }),
                  ),
                },
              }),
            ),
          },
          rules: [
            {
              cel: '[has(self.httpsSpiffe), has(self.httpsWeb), has(self.static)].filter(x, x).size() == 1',
              message: 'exactly one of httpsSpiffe, httpsWeb and static must be set',
              holds: (value: {
                readonly httpsSpiffe?: unknown;
                readonly httpsWeb?: unknown;
                readonly static?: unknown;
              }) =>
                [value.httpsSpiffe, value.httpsWeb, value.static].filter(
                  (source) => source !== undefined,
                ).length === 1,
            },
          ],
        }),
      ),
      staleAfterSeconds: optional(
        s.integer({
          description:
            'How long workloads still get a bundle that could not be refreshed, counted from the time when the refresh was due. After that it is stale and withheld until its endpoint answers. A static bundle never becomes stale. Workloads never get a bundle whose authorities have expired.',
          format: 'int32',
          minimum: 60,
          maximum: 31_536_000,
          default: 3600,
        }),
      ),
      announcedSequence: optional(
        s.integer({
          description:
            'The newest sequence that the publisher announced. If the current bundle is older, the site fetches a newer one at once.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      quarantined: optional(
        s.boolean({
          description:
            'The site refreshes the bundle but does not trust it. Set while a peer is suspended.',
          default: false,
        }),
      ),
    },
  }),
  status: s.object({
    description: 'The bundle, and how the last fetches went.',
    fields: {
      bundle: optional(
        s.string({
          description: 'The last accepted document.',
          maxLength: maxBundleCharacters,
        }),
      ),
      sequence: optional(
        s.integer({ description: 'Its spiffe_sequence.', format: 'int64', minimum: 0 }),
      ),
      refreshHintSeconds: optional(
        s.integer({
          description: 'The refresh hint of the publisher.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      syncedAt: optional(s.time({ description: 'When the source last confirmed the bundle.' })),
      nextSyncAt: optional(s.time({ description: 'When the next refresh is due.' })),
      bootstrappedAt: optional(
        s.time({
          description:
            'When the site loaded the bootstrap of the spec; absent once the endpoint has answered.',
        }),
      ),
      authorities: optional(
        s.list({
          description: 'The X.509 authorities of the bundle.',
          listType: 'map',
          keys: ['fingerprint'],
          maxItems: 64,
          items: s.object({
            description: 'One authority.',
            fields: {
              fingerprint: required(
                s.string({
                  description: 'SHA-256 of its certificate, in hexadecimal.',
                  maxLength: 128,
                }),
              ),
              notAfter: required(s.time({ description: 'When it expires.' })),
            },
          }),
        }),
      ),
      jwtAuthorities: optional(
        s.list({
          description: 'The JWT authorities of the bundle. The document has no expiry for them.',
          listType: 'map',
          keys: ['keyID'],
          maxItems: 64,
          items: s.object({
            description: 'One authority.',
            fields: {
              keyID: required(
                s.string({ description: 'The kid of tokens that it signed.', maxLength: 1024 }),
              ),
            },
          }),
        }),
      ),
      authorityCount: optional(
        s.integer({
          description: 'Number of authorities of both kinds.',
          minimum: 0,
        }),
      ),
      source: optional(
        s.string({
          description: 'Where the bundle comes from.',
          enum: ['https_spiffe', 'https_web', 'static'],
        }),
      ),
      consecutiveFailures: optional(
        s.integer({ description: 'Failed fetches since the last success.', minimum: 0 }),
      ),
      lastError: optional(
        s.object({
          description: 'Why the last fetch failed; absent when it succeeded.',
          fields: {
            class: required(
              s.string({
                description:
                  'dns: the name does not exist. connect: the endpoint does not answer. unreachable: the connection or response was interrupted or took too long. identity: the server is not the expected one. http: the response has an HTTP error status. redirect: the redirect is not allowed. content-type: the response is not JSON. size: the response is too large. malformed: the response cannot be parsed. empty: it has no usable authority. expired: all its authorities have expired. sequence: it is older than the current bundle. own-authority: it contains an authority of this site. trust-domain: its authorities name another trust domain. internal: a bug in this site.',
                enum: [
                  'dns',
                  'connect',
                  'unreachable',
                  'identity',
                  'http',
                  'redirect',
                  'content-type',
                  'size',
                  'malformed',
                  'empty',
                  'expired',
                  'sequence',
                  'own-authority',
                  'trust-domain',
                  'internal',
                ],
              }),
            ),
            message: required(
              s.string({ description: 'The error in a sentence.', maxLength: 1024 }),
            ),
            at: required(s.time({ description: 'When it failed.' })),
          },
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  // They move with every fetch; what a fetch changed is in the other fields and the conditions.
  liveStatus: ['syncedAt', 'nextSyncAt', 'consecutiveFailures', 'lastError'],
  columns: [
    {
      name: 'Source',
      type: 'string',
      jsonPath: '.status.source',
      description: 'Where the bundle comes from.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether the site has a usable bundle.',
    },
    {
      name: 'Fresh',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Fresh")].status',
      description: 'Whether the source confirmed the bundle recently.',
    },
    {
      name: 'Synced',
      type: 'date',
      jsonPath: '.status.syncedAt',
      description: 'Time since the source confirmed the bundle.',
    },
    {
      name: 'Next',
      type: 'date',
      jsonPath: '.status.nextSyncAt',
      description: 'Time until the next refresh.',
      counts: 'down',
    },
    {
      name: 'Authorities',
      type: 'integer',
      jsonPath: '.status.authorityCount',
      description: 'Number of authorities.',
    },
    {
      name: 'Error',
      type: 'string',
      jsonPath: '.status.lastError.class',
      description: 'Why the last fetch failed.',
      priority: 1,
    },
    {
      name: 'Sequence',
      type: 'integer',
      jsonPath: '.status.sequence',
      description: 'The sequence of the bundle.',
      priority: 1,
    },
    {
      name: 'Since',
      type: 'date',
      jsonPath: '.status.conditions[?(@.type=="Ready")].lastTransitionTime',
      description: 'Time since Ready last changed.',
      priority: 1,
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].message',
      description: 'The reason, and what to do.',
      priority: 1,
    },
  ],
});
