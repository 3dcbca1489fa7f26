// SPIFFEFederation: another trust domain whose identities this site can verify.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type SPIFFEFederation = ResourceOf<typeof spiffeFederationKind>;

/** The label of federations that peering keeps: their bundles go only where a grant lets them. */
export const peerLabel = 'hansa.dev/peer';

/** As many characters as a bundle may have bytes; see core/identity/spiffe-bundle.ts. */
const maxBundleCharacters = 262_144;

const bundleDocument =
  'A bundle as SPIFFE writes it: a JWK Set with x5c for each X.509 authority. `hansa trust bundle show` and `spire-server bundle show -format spiffe` print one.';

export const spiffeFederationKind = defineKind({
  kind: 'SPIFFEFederation',
  plural: 'spiffefederations',
  singular: 'spiffefederation',
  shortNames: ['sf'],
  description:
    'A trust domain that this site believes, named after it: its bundle says which authorities sign its SVIDs, and is kept fresh from its source. Deleting it ends that trust at once.',
  names: 'trust-domain',
  auditName: 'spiffe.federation',
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
                  bundleEndpointURL: required(
                    s.string({
                      description:
                        'The https URL of the endpoint, without user and password, for example https://bruges.example:8443/.',
                      maxLength: 2048,
                      pattern: '^https://[^\\s/?#@]+(/[^\\s#]*)?$',
                    }),
                  ),
                  endpointSpiffeID: required(
                    s.string({
                      description:
                        'Who must answer there. Of a Hansa site it is spiffe://TRUST-DOMAIN/hansa/site, of SPIRE spiffe://TRUST-DOMAIN/spire/server.',
                      maxLength: 2048,
                      pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
                    }),
                  ),
                  bundleBootstrap: required(
                    s.string({
                      description: `Believed until the first fetch, which it authenticates. ${bundleDocument}`,
                      minLength: 1,
                      maxLength: maxBundleCharacters,
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
              cel: 'has(self.httpsSpiffe) != has(self.static)',
              message: 'exactly one of httpsSpiffe and static must be set',
              holds: (value: { readonly httpsSpiffe?: unknown; readonly static?: unknown }) =>
                (value.httpsSpiffe === undefined) !== (value.static === undefined),
            },
          ],
        }),
      ),
      staleAfterSeconds: optional(
        s.integer({
          description:
            'A bundle that was not confirmed by its endpoint for so long is shown as stale. It stays in use.',
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
      authorityCount: optional(
        s.integer({ description: 'How many authorities there are.', minimum: 0 }),
      ),
      source: optional(
        s.string({
          description: 'Where the bundle comes from.',
          enum: ['https_spiffe', 'static'],
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
                  'dns: the name is unknown. connect: nobody answers. unreachable: the connection or the answer broke off, or took too long. identity: another answers than expected. http: the answer is not a bundle but an HTTP status. size: the answer is too large. malformed: the answer cannot be read. empty: no authority in it can be believed. expired: all its authorities have expired. sequence: it is older than the one held. own-authority: it holds an authority of this site. internal: a fault of this site.',
                enum: [
                  'dns',
                  'connect',
                  'unreachable',
                  'identity',
                  'http',
                  'size',
                  'malformed',
                  'empty',
                  'expired',
                  'sequence',
                  'own-authority',
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
      type: 'string',
      jsonPath: '.status.nextSyncAt',
      description: 'When the source is asked again.',
      priority: 1,
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
  ],
});
