// FederationPeer: another site with which this one shares identity and services.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type FederationPeer = ResourceOf<typeof federationPeerKind>;

export const federationPeerKind = defineKind({
  kind: 'FederationPeer',
  plural: 'federationpeers',
  singular: 'federationpeer',
  shortNames: ['peer', 'peers'],
  description:
    'Another site, named after its trust domain. Peers come by invitation: `hansa peer invite` at one site, `hansa peer accept` at the other. Deleting one revokes it first.',
  names: 'trust-domain',
  specRequired: true,
  spec: s.object({
    description: 'Where the peer is, and what its operator here wants of it.',
    fields: {
      url: required(
        s.string({
          description: 'The https URL of its federation listener, as the peer itself gave it.',
          maxLength: 2048,
          pattern: '^https://[^\\s/?#@]+(/[^\\s?#]*)?$',
        }),
      ),
      desiredState: optional(
        s.string({
          description:
            'suspended: nothing of the peer is trusted, and nothing is sent to it, until it is active again. Its bundle is still fetched, so that resuming works after a rotation.',
          enum: ['active', 'suspended'],
          default: 'active',
        }),
      ),
    },
  }),
  status: s.object({
    description: 'What is known of the peer.',
    fields: {
      state: optional(
        s.string({
          description:
            'proposed: waits for a confirmation. accepted: both want it. enrolled: bundles are exchanged. active: heard from. degraded: silent for too long. suspended: by an operator here. revoked: for good.',
          enum: ['proposed', 'accepted', 'enrolled', 'active', 'degraded', 'suspended', 'revoked'],
        }),
      ),
      stateBefore: optional(
        s.string({
          description: 'While suspended: the state to which it returns.',
          enum: ['enrolled', 'active', 'degraded'],
        }),
      ),
      since: optional(s.time({ description: 'When it came into this state.' })),
      reason: optional(
        s.string({ description: 'Why it is in this state, in a sentence.', maxLength: 1024 }),
      ),
      cause: optional(
        s.string({
          description:
            "What keeps the peer from going on, in one word. WaitsForPeer: the operator of the peer must act there. ForeignFederation: a SPIFFEFederation of this name is not the peer's. FederationLimit: the site has as many federations as it may. Refused: the peer rejects this site. Untrusted: another key or name answers than the peer's. Unreachable: nothing answers.",
          enum: [
            'WaitsForPeer',
            'ForeignFederation',
            'FederationLimit',
            'Refused',
            'Untrusted',
            'Unreachable',
          ],
        }),
      ),
      role: optional(
        s.string({
          description: 'Whether this site invited the peer, or was invited by it.',
          enum: ['inviter', 'acceptor'],
        }),
      ),
      invitation: optional(
        s.string({
          description: 'The public identifier of the invitation that made it a peer.',
          maxLength: 64,
        }),
      ),
      contractVersion: optional(
        s.integer({
          description: 'The version of the federation API that both sites agreed on.',
          minimum: 1,
          maximum: 1000,
        }),
      ),
      fingerprint: optional(
        s.string({
          description:
            'SHA-256 over the public keys of its authorities when it became a peer, to compare by voice.',
          maxLength: 128,
        }),
      ),
      lastHeartbeatAt: optional(
        s.time({
          description: 'When the peer was last heard from, in either direction.',
        }),
      ),
      receipt: optional(
        s.object({
          description:
            'Which bundle of this site the peer told that it holds. A rotation of the authorities waits for it.',
          fields: {
            sequence: required(
              s.integer({ description: 'Its spiffe_sequence.', format: 'int64', minimum: 0 }),
            ),
            hash: required(
              s.string({ description: 'SHA-256 over its authorities.', maxLength: 64 }),
            ),
            at: required(s.time({ description: 'When the peer first told so.' })),
          },
        }),
      ),
      offers: optional(
        s.list({
          description: 'What the peer offers to workloads of this site.',
          listType: 'map',
          keys: ['name'],
          maxItems: 256,
          items: s.object({
            description: 'One service.',
            fields: {
              name: required(
                s.string({ description: 'Its name at the peer.', minLength: 1, maxLength: 253 }),
              ),
              spiffeID: required(
                s.string({
                  description: 'The SPIFFE ID of the workload that serves it.',
                  maxLength: 2048,
                }),
              ),
              grantedTo: required(
                s.list({
                  description:
                    'The SPIFFE IDs of this site that may use it; * stands for every one.',
                  listType: 'atomic',
                  maxItems: 1024,
                  items: s.string({ description: 'A SPIFFE ID, or *.', maxLength: 2048 }),
                }),
              ),
            },
          }),
        }),
      ),
      enforcement: optional(
        s.list({
          description:
            'While the peer is suspended or revoked: which places that can refuse it have heard of that.',
          listType: 'map',
          keys: ['point'],
          maxItems: 256,
          items: s.object({
            description: 'One place.',
            fields: {
              point: required(
                s.string({
                  description:
                    'Its name: api, bundle-delivery, ext_authz or join for the site itself.',
                  minLength: 1,
                  maxLength: 253,
                }),
              ),
              state: required(
                s.string({
                  description:
                    'enforced: nothing of the peer passes there. pending: something still may.',
                  enum: ['enforced', 'pending'],
                }),
              ),
              since: required(s.time({ description: 'From when on it is so.' })),
            },
          }),
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  // It moves with every heartbeat and changes no state.
  liveStatus: ['lastHeartbeatAt'],
  columns: [
    {
      name: 'State',
      type: 'string',
      jsonPath: '.status.state',
      description: 'Where the peer stands.',
    },
    {
      name: 'Since',
      type: 'date',
      jsonPath: '.status.since',
      description: 'For how long it has been in this state.',
    },
    {
      name: 'Last-Seen',
      type: 'date',
      jsonPath: '.status.lastHeartbeatAt',
      description: 'How long ago the peer was heard from.',
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.reason',
      description: 'Why it is in this state.',
    },
    {
      name: 'URL',
      type: 'string',
      jsonPath: '.spec.url',
      description: 'Where its federation listener is.',
      priority: 1,
    },
    {
      name: 'Fingerprint',
      type: 'string',
      jsonPath: '.status.fingerprint',
      description: 'To compare by voice.',
      priority: 1,
    },
  ],
});
