// SPIFFEFederation: another trust domain whose identities this site can verify.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type SPIFFEFederation = ResourceOf<typeof spiffeFederationKind>;

/** The label of federations that peering keeps: their bundles go only where a grant lets them. */
export const peerLabel = 'hansa.dev/peer';

/** As many characters as a bundle may have bytes; see core/identity/bundle/spiffe-bundle.ts. */
const maxBundleCharacters = 262_144;

const bundleDocument =
  'A bundle as SPIFFE writes it: a JWK Set with x5c for each X.509 authority. `hansa trust bundle show` and `spire-server bundle show -format spiffe` print one.';

const endpointURL = s.string({
  description:
    'The https URL of the endpoint, without user and password, for example https://bruges.example:8443/.',
  maxLength: 2048,
  // A user and a password are refused by the plane (trust/federation/admit-federation.ts), not here: what does
  // not match a pattern is repeated to whoever reads the answer.
  pattern: '^https://[^\\s/?#]+(/[^\\s#]*)?$',
  hint: 'write an https URL, such as https://bruges.example:8443/',
});

export const spiffeFederationKind = defineKind({
  kind: 'SPIFFEFederation',
  plural: 'spiffefederations',
  singular: 'spiffefederation',
  shortNames: ['sf'],
  description:
    'A trust domain that this site believes, named after it: its bundle says which authorities sign its SVIDs, and is kept fresh from its source. Deleting it ends that trust at once.',
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
                        'Who must answer there. Of a Hansa site it is spiffe://TRUST-DOMAIN/hansa/site, of SPIRE spiffe://TRUST-DOMAIN/spire/server.',
                      maxLength: 2048,
                      pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
                    }),
                  ),
                  bundleBootstrap: required(
                    s.string({
                      description: `Believed until the first fetch, which it authenticates; after that it is used no more, unless \`hansa trust bundle bootstrap\` says so. ${bundleDocument}`,
                      minLength: 1,
                      maxLength: maxBundleCharacters,
                    }),
                  ),
                },
                rules: [
                  {
                    cel: 'has(self.endpointSpiffeID)',
                    message:
                      'endpointSpiffeID must be set: whose SVID the endpoint presents. Of a Hansa site it is spiffe://TRUST-DOMAIN/hansa/site, of SPIRE spiffe://TRUST-DOMAIN/spire/server. An endpoint with a certificate of the Web PKI belongs under httpsWeb',
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
                        'PEM certificates of a private authority that signs for the endpoint. Set, the public ones count no more.',
                      minLength: 1,
                      maxLength: 131_072,
                    }),
                  ),
                  pinnedKeys: optional(
                    s.list({
                      description:
                        'Beside a certificate for its name, the endpoint must have one of these keys, or be signed for by one: the certificate itself, or one above it in the chain. Written as in HTTP Public Key Pinning: sha256/ and the base64 of the SHA-256 of the SubjectPublicKeyInfo.',
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
                description: 'A bundle that is given here. It never goes stale.',
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
            'How long a bundle that could not be refreshed is still given to workloads, counted from when its publisher wanted to be asked again. Afterwards it is withheld from them until its endpoint answers. A static bundle never goes stale, and none is given out after its authorities have expired.',
          format: 'int32',
          minimum: 60,
          maximum: 31_536_000,
          default: 3600,
        }),
      ),
      announcedSequence: optional(
        s.integer({
          description:
            'A bundle of this sequence is known to exist, because its publisher told so: where the one held is older, a newer one is fetched at once.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      quarantined: optional(
        s.boolean({
          description:
            'The bundle is kept fresh, but believed by nobody: set while a peer is suspended.',
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
          description: 'The document that was accepted last.',
          maxLength: maxBundleCharacters,
        }),
      ),
      sequence: optional(
        s.integer({ description: 'Its spiffe_sequence.', format: 'int64', minimum: 0 }),
      ),
      refreshHintSeconds: optional(
        s.integer({
          description: 'How often its publisher wants to be asked.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      syncedAt: optional(s.time({ description: 'When the source last confirmed the bundle.' })),
      nextSyncAt: optional(s.time({ description: 'When the source is asked again.' })),
      bootstrappedAt: optional(
        s.time({
          description:
            'When the bootstrap of the spec was taken up; absent once the endpoint has answered.',
        }),
      ),
      authorities: optional(
        s.list({
          description: 'The X.509 authorities of the bundle: what signs X.509-SVIDs.',
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
          description:
            'The JWT authorities of the bundle: what signs JWT-SVIDs. The document gives them no expiry.',
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
          description: 'How many authorities there are, of both kinds.',
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
        s.integer({ description: 'Fetches that failed since one succeeded.', minimum: 0 }),
      ),
      lastError: optional(
        s.object({
          description: 'Why the last fetch failed; absent when it succeeded.',
          fields: {
            class: required(
              s.string({
                description:
                  'dns: the name is unknown. connect: nobody answers. unreachable: the connection or the answer broke off, or took too long. identity: another answers than expected. http: the answer is not a bundle but an HTTP status. redirect: the answer leads where no bundle may come from. content-type: the answer says that it is no JSON. size: the answer is too large. malformed: the answer cannot be read. empty: no authority in it can be believed. expired: all its authorities have expired. sequence: it is older than the one held. own-authority: it holds an authority of this site. trust-domain: its authorities say that they are of another trust domain. internal: a fault of this site.',
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
            message: required(s.string({ description: 'In a sentence.', maxLength: 1024 })),
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
      description: 'Whether there is a bundle to believe.',
    },
    {
      name: 'Fresh',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Fresh")].status',
      description: 'Whether the source confirmed it lately.',
    },
    {
      name: 'Synced',
      type: 'date',
      jsonPath: '.status.syncedAt',
      description: 'How long ago the source confirmed it.',
    },
    {
      name: 'Next',
      type: 'date',
      jsonPath: '.status.nextSyncAt',
      description: 'How long until the source is asked again.',
      counts: 'down',
    },
    {
      name: 'Authorities',
      type: 'integer',
      jsonPath: '.status.authorityCount',
      description: 'How many authorities there are.',
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
      description: 'Since when it is ready, or not.',
      priority: 1,
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].message',
      description: 'Why, and what to do.',
      priority: 1,
    },
  ],
});
