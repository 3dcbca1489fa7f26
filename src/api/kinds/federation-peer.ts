// The kind FederationPeer: another site that this site is connected with through an invitation.

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
    'Another site, named after its trust domain. An invitation creates a peer: `hansa peer invite` at one site, `hansa peer accept` at the other. Deleting a peer revokes it first.',
  names: 'trust-domain',
  specRequired: true,
  spec: s.object({
    description: 'The URL of the peer, and its desired state.',
    fields: {
      url: required(
        s.string({
          description: 'The https URL of its federation listener, as reported by the peer.',
          maxLength: 2048,
          pattern: '^https://[^\\s/?#@]+(/[^\\s?#]*)?$',
        }),
      ),
      desiredState: optional(
        s.string({
          description:
            'suspended: this site does not trust the peer and sends nothing to it, until you set active again. The site still fetches its bundle, so that resuming works after a rotation.',
          enum: ['active', 'suspended'],
          default: 'active',
        }),
      ),
      peerKind: optional(
        s.string({
          description:
            'platform (the default): a site with its own trust domain. node: a machine of this site; reserved, and refused until a machine can be a peer.',
          enum: ['platform', 'node'],
        }),
      ),
      spawnRole: optional(
        s.string({
          description:
            'symmetric (the default): both sites existed before, and became peers through an invitation. parent: this site created the peer. child: the peer created this site. parent and child are reserved, and refused until a site can create another.',
          enum: ['parent', 'child', 'symmetric'],
        }),
      ),
      spawnMode: optional(
        s.string({
          description:
            'How a created site relates to the site that created it. managed_child: it gets SVIDs of its parent. autonomous_peer: it has authorities of its own. cluster_member: it is a node of this site. Only a created site has one, so every value is refused until a site can create another.',
          enum: ['managed_child', 'autonomous_peer', 'cluster_member'],
        }),
      ),
    },
  }),
  status: s.object({
    description: 'The observed state of the peer.',
    fields: {
      state: optional(
        s.string({
          description:
            'proposed: not redeemed or not confirmed yet, or re-enrolling. accepted: both sites agreed. enrolled: bundles are exchanged. active: heartbeats arrive. degraded: silent for too long. suspended: by an operator of this site. revoked: ended for good.',
          enum: ['proposed', 'accepted', 'enrolled', 'active', 'degraded', 'suspended', 'revoked'],
        }),
      ),
      stateBefore: optional(
        s.string({
          description: 'While suspended: the state to which it returns.',
          enum: ['enrolled', 'active', 'degraded'],
        }),
      ),
      since: optional(s.time({ description: 'When it entered this state.' })),
      reason: optional(
        s.string({ description: 'Why it is in this state, in a sentence.', maxLength: 1024 }),
      ),
      cause: optional(
        s.string({
          description:
            "What blocks the peer, in one word. WaitsForPeer: the operator of the peer must act there. ForeignFederation: a SPIFFEFederation of this name is not the peer's. FederationLimit: the site has reached its limit of federations. Refused: the peer rejects this site. Untrusted: the server has another key or name than the peer. Unreachable: the peer does not answer. WaitsForRedemption: the peer must accept the invitation of its re-enrolment. NeedsInvitation: the re-enrolment needs a new invitation.",
          enum: [
            'WaitsForPeer',
            'ForeignFederation',
            'FederationLimit',
            'Refused',
            'Untrusted',
            'Unreachable',
            'WaitsForRedemption',
            'NeedsInvitation',
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
          description: 'The public identifier of the invitation that created the peer.',
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
            'SHA-256 over the public keys of its authorities when it became a peer. Operators compare it by phone.',
          maxLength: 128,
        }),
      ),
      reenrolments: optional(
        s.integer({
          description:
            'How often it has started over with new keys (hansa peer reenrol). What it got under earlier keys has ended.',
          minimum: 1,
        }),
      ),
      lostKeys: optional(
        s.list({
          description:
            'SHA-256 of the public keys that it has lost, in hexadecimal. The site rejects a re-enrolment with one of them.',
          listType: 'set',
          maxItems: 256,
          items: s.string({ description: 'One key.', maxLength: 64 }),
        }),
      ),
      acceptance: optional(
        s.object({
          description:
            'How the peer was accepted: the outcome of each step. A peer of an earlier version has none.',
          fields: {
            steps: required(
              s.list({
                description: 'The steps so far, in their order.',
                listType: 'map',
                keys: ['step'],
                maxItems: 16,
                items: s.object({
                  description: 'One step.',
                  fields: {
                    step: required(
                      s.string({
                        description:
                          'contract: both sites support a version of the federation API. invitation: the invitation is valid and was redeemed. accept: both sites agreed. enrol: the sites exchanged their bundles. grants: grants that come with the kind of peer. attach: the overlay. governance: the governance scan.',
                        enum: [
                          'contract',
                          'invitation',
                          'accept',
                          'enrol',
                          'grants',
                          'attach',
                          'governance',
                        ],
                      }),
                    ),
                    need: required(
                      s.string({
                        description:
                          'hard: the peer is not enrolled without it. soft: a failure is a warning, and hansa peer retry repeats the step.',
                        enum: ['hard', 'soft'],
                      }),
                    ),
                    outcome: required(
                      s.string({
                        description:
                          'done, skipped (it does not apply; the message says why), or failed.',
                        enum: ['done', 'skipped', 'failed'],
                      }),
                    ),
                    message: optional(
                      s.string({ description: 'What happened, in a sentence.', maxLength: 512 }),
                    ),
                    at: required(s.time({ description: 'When it had this outcome first.' })),
                  },
                }),
              }),
            ),
            warnings: optional(
              s.list({
                description: 'What an operator should know, from this site and from the peer.',
                listType: 'atomic',
                maxItems: 32,
                items: s.string({ description: 'A sentence.', maxLength: 512 }),
              }),
            ),
            completedAt: optional(s.time({ description: 'When the last step ended.' })),
          },
        }),
      ),
      capabilities: optional(
        s.list({
          description:
            'The parts of the federation API that both sites agreed on in the handshake.',
          listType: 'set',
          maxItems: 64,
          items: s.string({ description: 'One capability.', minLength: 1, maxLength: 63 }),
        }),
      ),
      extensionSlugs: optional(
        s.list({
          description: 'Names of the optional features that the peer had at the handshake.',
          listType: 'set',
          maxItems: 64,
          items: s.string({ description: 'One extension slug.', minLength: 1, maxLength: 63 }),
        }),
      ),
      reported: optional(
        s.object({
          description:
            'What the peer reports with its heartbeats, if it differs from what the handshake agreed on. It changes nothing: capabilities and extensionSlugs stay as agreed.',
          fields: {
            capabilities: required(
              s.list({
                description: 'The parts of the federation API that the peer has now.',
                listType: 'set',
                maxItems: 64,
                items: s.string({ description: 'One capability.', minLength: 1, maxLength: 63 }),
              }),
            ),
            extensionSlugs: required(
              s.list({
                description: 'Names of the optional features that the peer has now.',
                listType: 'set',
                maxItems: 64,
                items: s.string({
                  description: 'One extension slug.',
                  minLength: 1,
                  maxLength: 63,
                }),
              }),
            ),
          },
        }),
      ),
      clock: optional(
        s.object({
          description:
            'How far the clock of the peer is from that of this site, measured by heartbeats. The condition ClockInSync says whether that is too far.',
          fields: {
            skewMilliseconds: required(
              s.integer({
                description: 'Positive if the clock of the peer is ahead.',
                format: 'int64',
              }),
            ),
            uncertaintyMilliseconds: required(
              s.integer({
                description: 'How much the true value can differ, because messages take time.',
                format: 'int64',
                minimum: 0,
              }),
            ),
            measuredAt: required(s.time({ description: 'When, by the clock of this site.' })),
          },
        }),
      ),
      endpoints: optional(
        s.list({
          description: 'Where the peer said in the handshake that it can be reached.',
          listType: 'map',
          keys: ['name'],
          maxItems: 16,
          items: s.object({
            description: 'One endpoint.',
            fields: {
              name: required(
                s.string({
                  description: 'What it is for. federation: the federation API.',
                  minLength: 1,
                  maxLength: 63,
                }),
              ),
              url: required(s.string({ description: 'Its https URL.', maxLength: 2048 })),
            },
          }),
        }),
      ),
      lastHeartbeatAt: optional(
        s.time({
          description: 'When the last heartbeat succeeded, in either direction.',
        }),
      ),
      receipt: optional(
        s.object({
          description:
            'The receipt: which bundle of this site the peer holds. A rotation of the authorities waits for it.',
          fields: {
            sequence: required(
              s.integer({ description: 'Its spiffe_sequence.', format: 'int64', minimum: 0 }),
            ),
            hash: required(
              s.string({ description: 'SHA-256 over its authorities.', maxLength: 64 }),
            ),
            at: required(s.time({ description: 'When the peer first reported it.' })),
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
                  description: 'The SPIFFE IDs of this site that may use it; * means all.',
                  listType: 'atomic',
                  maxItems: 1024,
                  items: s.string({ description: 'A SPIFFE ID, or *.', maxLength: 2048 }),
                }),
              ),
            },
          }),
        }),
      ),
      clusters: optional(
        s.list({
          description:
            'The clusters of the peer that this site may read, as the peer reports. Absent: the peer does not report them.',
          listType: 'set',
          maxItems: 128,
          items: s.string({ description: 'The name of a Cluster at the peer.', maxLength: 63 }),
        }),
      ),
      enforcement: optional(
        s.list({
          description:
            'While the peer is suspended or revoked: which enforcement points reject it already.',
          listType: 'map',
          keys: ['point'],
          maxItems: 256,
          items: s.object({
            description: 'One enforcement point.',
            fields: {
              point: required(
                s.string({
                  description:
                    'Its name. For the site itself: api (calls of the peer), bundle-delivery (to workloads), connections (to the peer), ext_authz, join, members (agents and bots that the peer vouched for), spire-bundles, svid-validation and token-reviews; with several replicas, NAME@REPLICA. agent/NAME: an agent. replica/NAME: a replica that has not reported. more: all that have no row of their own.',
                  minLength: 1,
                  maxLength: 253,
                }),
              ),
              state: required(
                s.string({
                  description:
                    'enforced: the point rejects the peer. pending: it may still admit the peer. An agent is pending until it has acknowledged the change, so one that is not connected stays pending.',
                  enum: ['enforced', 'pending'],
                }),
              ),
              since: required(s.time({ description: 'Since when.' })),
              message: optional(
                s.string({
                  description: 'How many places the row more stands for.',
                  maxLength: 256,
                }),
              ),
            },
          }),
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  // They move with every heartbeat and change no state.
  liveStatus: ['lastHeartbeatAt', 'clock'],
  columns: [
    {
      name: 'State',
      type: 'string',
      jsonPath: '.status.state',
      description: 'The state of the peer.',
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
      description: 'Time since the last heartbeat.',
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
      description: 'The URL of its federation listener.',
      priority: 1,
    },
    {
      name: 'Fingerprint',
      type: 'string',
      jsonPath: '.status.fingerprint',
      description: 'The fingerprint, which operators compare by phone.',
      priority: 1,
    },
  ],
});
