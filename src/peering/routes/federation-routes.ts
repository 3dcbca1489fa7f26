// The federation API: the routes that other sites call.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { Audit } from '../../core/audit/log.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import type { Counter } from '../../core/metrics/metrics.ts';
import {
  type FederationRequest,
  type PeerRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import { acceptanceAnswer } from '../handshake/acceptance.ts';
import { crossed } from '../handshake/crossing.ts';
import type { Handshake } from '../handshake/handshake.ts';
import type { HeartbeatExchange } from '../peers/heartbeat-exchange.ts';
import type { Inviter } from '../handshake/inviter.ts';
import { refusedActor } from '../handshake/redeemer.ts';
import {
  agreedByDefault,
  encodeMessage,
  maxAnnouncementBytes,
  maxHeartbeatBytes,
  maxMessageBytes,
  parseAnnouncement,
  parseHeartbeat,
  parsePreviewRequest,
  parseRedeemRequest,
  paths,
} from '../messages.ts';
import type { PeerFederations } from '../peers/peer-federation.ts';
import { PeerRate } from '../peers/peer-rate.ts';
import type { Peerings } from '../handshake/peerings.ts';
import { messageCost, messageLimit } from '../timing.ts';
import { peeringError } from '../errors.ts';
import type { Witness } from '../witness/witness.ts';
import { ownFeatures } from '../features.ts';

export interface FederationRoutesParts {
  readonly trustDomain: TrustDomain;
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'deny'>;
  readonly advertiseURL: () => string;
  readonly federations: PeerFederations;
  readonly inviter: Inviter;
  readonly peerings: Peerings;
  readonly handshake: Handshake;
  readonly heartbeats: HeartbeatExchange;
  readonly results: Counter<'direction' | 'result'>;
  readonly witness?: Pick<Witness, 'exchange'>;
}

export function federationRoutes(parts: FederationRoutesParts): readonly PlaneRoute[] {
  const { trustDomain, federations, inviter, peerings, handshake } = parts;
  const { heartbeats, results, advertiseURL, witness } = parts;
  const rate = new PeerRate(parts.clock, messageLimit);
  return [
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.preview,
      // The caller proves that it knows the secret of the invitation.
      allow: 'public',
      handle: async (request) => {
        const message = await readStranger(request, 'invitation.preview', parsePreviewRequest);
        return answer(await inviter.preview(message, strangerOf(request)));
      },
    }),
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.redeem,
      // The site has no bundle of the caller yet. The handler verifies the certificate.
      allow: 'certificate',
      handle: async (request) => {
        const message = await readStranger(request, 'invitation.redeem', parseRedeemRequest);
        const invitation = await inviter.redeem(message, strangerOf(request));
        const peer = await handshake.admit(message.trustDomain.name);
        const state = peer?.status?.state;
        if (
          state === 'proposed' &&
          peer?.status?.role === 'acceptor' &&
          peerings.isOpen(invitation)
        ) {
          throw crossed(trustDomain, message.trustDomain.name);
        }
        if (peer?.status?.invitation !== invitation || state === undefined || state === 'revoked') {
          throw peeringError(
            'HANSA_INVITATION_REFUSED',
            `Cannot accept the invitation: ${trustDomain.name} rejected this site. Ask its operator.`,
          );
        }
        const waits = state === 'proposed' || state === 'accepted';
        const { redeemed } = inviter.invitations.get(invitation)?.value ?? {};
        return answer({
          state: waits ? 'pending' : 'accepted',
          contractVersion: redeemed?.contractVersion ?? agreedByDefault,
          ...ownFeatures(advertiseURL()),
          ...(waits ? {} : acceptanceAnswer(peer.status.acceptance)),
          // The key of a site that still waits for confirmation proves nothing.
          ...(await witness?.exchange(peer, waits ? undefined : message.logIntroduction)),
        });
      },
    }),
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.heartbeat,
      allow: 'peer',
      handle: async (request) => {
        const { name, trustDomain: sender } = request.peer;
        const heartbeat = await read(request, maxHeartbeatBytes, (body) =>
          parseHeartbeat(body, sender, trustDomain),
        );
        await heartbeats.heard(name, heartbeat);
        results.add({ direction: 'received', result: 'answered' });
        return answer(await heartbeats.answer(name, heartbeat));
      },
    }),
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.announce,
      allow: 'peer',
      handle: async (request) => {
        const { name } = request.peer;
        const { bundleSequence } = await read(request, maxAnnouncementBytes, parseAnnouncement);
        await federations.announced(name, bundleSequence);
        return { status: 204, contentType: 'application/json', body: '' };
      },
    }),
  ];

  /** A message of a stranger that is too large or malformed is also in the audit log. What it claims is not. */
  async function readStranger<T>(
    request: FederationRequest,
    verb: string,
    parse: (body: Buffer) => T,
  ): Promise<T> {
    try {
      return parse(await request.body(maxMessageBytes));
    } catch (error) {
      if (refusals.some((code) => hasCode(error, code))) {
        const { code, message: reason } = toHansaError(error);
        const actor = refusedActor(strangerOf(request));
        parts.audit.deny({ actor, verb, kind: 'FederationPeer', outcome: 'deny', code, reason });
      }
      throw error;
    }
  }

  /** A message that is too large, comes too often or is malformed is also in the audit log. */
  async function read<T>(
    request: PeerRequest,
    limit: number,
    parse: (body: Buffer) => T,
  ): Promise<T> {
    try {
      return parse(await bodyOf(request, limit));
    } catch (error) {
      if (refusals.some((code) => hasCode(error, code))) {
        const isLimited = hasCode(error, 'HANSA_TOO_MANY_REQUESTS');
        results.add({ direction: 'received', result: isLimited ? 'limited' : 'refused' });
        heartbeats.refused(request.peer.name, error, request);
      }
      throw error;
    }
  }

  /** Applies the rate limit: the minimum cost before it reads the body, the rest before parsing. */
  async function bodyOf(request: PeerRequest, limit: number): Promise<Buffer> {
    const { name, uid } = request.peer;
    if (!rate.take(uid, messageCost)) throw tooMuch(name);
    const body = await request.body(limit);
    const more = body.byteLength - messageCost;
    if (more > 0 && !rate.take(uid, more)) throw tooMuch(name);
    return body;
  }

  function tooMuch(name: string): HansaError {
    return new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Cannot accept the message of ${name}: the rate limit of a peer is ${messageLimit.perSecond / 1024} KiB per second. Retry later.`,
    );
  }
}

/** The errors that the message of another site causes. */
const refusals = ['HANSA_BAD_REQUEST', 'HANSA_TOO_LARGE', 'HANSA_TOO_MANY_REQUESTS'] as const;

function strangerOf({ peerChain, address }: FederationRequest) {
  return { chain: peerChain, address };
}

function answer(message: Parameters<typeof encodeMessage>[0]): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: encodeMessage(message) };
}
