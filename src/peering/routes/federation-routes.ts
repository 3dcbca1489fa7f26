// The federation API: what other sites may ask of this one.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Counter } from '../../core/metrics/metrics.ts';
import {
  type FederationRequest,
  type PeerRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import { crossed } from '../handshake/crossing.ts';
import type { Handshake } from '../handshake/handshake.ts';
import type { HeartbeatExchange } from '../peers/heartbeat-exchange.ts';
import type { Inviter } from '../handshake/inviter.ts';
import {
  contractVersion,
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
import type { Redemptions } from '../handshake/redemptions.ts';
import { messageCost, messageLimit } from '../timing.ts';
import { peeringError } from '../errors.ts';

export interface FederationRoutesParts {
  readonly trustDomain: TrustDomain;
  readonly clock: Clock;
  readonly federations: PeerFederations;
  readonly inviter: Inviter;
  readonly redemptions: Redemptions;
  readonly handshake: Handshake;
  readonly heartbeats: HeartbeatExchange;
  readonly results: Counter<'direction' | 'result'>;
}

export function federationRoutes(parts: FederationRoutesParts): readonly PlaneRoute[] {
  const { trustDomain, federations, inviter, redemptions, handshake } = parts;
  const { heartbeats, results } = parts;
  const rate = new PeerRate(parts.clock, messageLimit);
  return [
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.preview,
      // A stranger proves by the secret of the invitation that it may.
      allow: 'public',
      handle: async (request) => {
        const message = parsePreviewRequest(await request.body(maxMessageBytes));
        return answer(await inviter.preview(message, strangerOf(request)));
      },
    }),
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.redeem,
      // The invitation pins its keys: no bundle of this site can verify it yet.
      allow: 'certificate',
      handle: async (request) => {
        const message = parseRedeemRequest(await request.body(maxMessageBytes));
        const invitation = await inviter.redeem(message, strangerOf(request));
        const peer = await handshake.admit(message.trustDomain.name);
        const state = peer?.status?.state;
        if (
          state === 'proposed' &&
          peer?.status?.role === 'acceptor' &&
          redemptions.isOpen(invitation)
        ) {
          throw crossed(trustDomain, message.trustDomain.name);
        }
        if (peer?.status?.invitation !== invitation || state === undefined || state === 'revoked') {
          throw peeringError(
            'HANSA_INVITATION_REFUSED',
            `Cannot accept the invitation: ${trustDomain.name} has turned this site down. Ask its operator.`,
          );
        }
        const waits = state === 'proposed' || state === 'accepted';
        return answer({ state: waits ? 'pending' : 'accepted', contractVersion });
      },
    }),
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.heartbeat,
      allow: 'peer',
      handle: async (request) => {
        const { name, trustDomain: sender } = request.peer;
        const body = await bodyOf(request, maxHeartbeatBytes);
        await heartbeats.heard(name, parseHeartbeat(body, sender, trustDomain));
        results.add({ direction: 'received', result: 'answered' });
        return answer(heartbeats.message(name));
      },
    }),
    route({
      listener: 'federation',
      method: 'POST',
      path: paths.announce,
      allow: 'peer',
      handle: async (request) => {
        const { name } = request.peer;
        const body = await bodyOf(request, maxAnnouncementBytes);
        await federations.announced(name, parseAnnouncement(body).bundleSequence);
        return { status: 204, contentType: 'application/json', body: '' };
      },
    }),
  ];

  /** Refuses what is too much before it is parsed, and where there is no room for any before it is read. */
  async function bodyOf(request: PeerRequest, limit: number): Promise<Buffer> {
    const { name, uid } = request.peer;
    if (!rate.take(uid, messageCost)) throw tooMuch(name);
    const body = await request.body(limit);
    const more = body.byteLength - messageCost;
    if (more > 0 && !rate.take(uid, more)) throw tooMuch(name);
    return body;
  }

  function tooMuch(name: string): HansaError {
    results.add({ direction: 'received', result: 'limited' });
    return new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Cannot take the message of ${name}: a peer may send ${messageLimit.perSecond / 1024} KiB a second. Send it again later.`,
    );
  }
}

function strangerOf({ peerChain, address }: FederationRequest) {
  return { chain: peerChain, address };
}

function answer(message: Parameters<typeof encodeMessage>[0]): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: encodeMessage(message) };
}
