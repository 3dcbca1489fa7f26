// The federation API: what other sites may ask of this one. Who they are comes from the connection
// alone, never from a header or from what they say.

import { SpiffeId } from '../api/spiffe-id.ts';
import { excerpt, type TrustDomain } from '../api/trust-domain.ts';
import type { Audit } from '../core/audit/log.ts';
import type { Clock } from '../core/clock/clock.ts';
import { HansaError } from '../core/errors/error.ts';
import type { Counter } from '../core/metrics/metrics.ts';
import type { PlaneRequest, PlaneResponse, PlaneRoute } from '../core/plane/route.ts';
import { crossed } from './crossing.ts';
import type { Handshake } from './handshake.ts';
import type { Heartbeats } from './heartbeats.ts';
import type { Inviter } from './inviter.ts';
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
} from './messages.ts';
import type { PeerBook } from './peer-book.ts';
import type { PeerFederations } from './peer-federation.ts';
import { PeerRate } from './peer-rate.ts';
import { isLive } from './peer-states.ts';
import type { Redemptions } from './redemptions.ts';
import { messageCost, messageLimit } from './timing.ts';
import { peeringError } from './errors.ts';

export interface FederationRoutesParts {
  readonly trustDomain: TrustDomain;
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'deny'>;
  readonly peers: PeerBook;
  readonly federations: PeerFederations;
  readonly inviter: Inviter;
  readonly redemptions: Redemptions;
  readonly handshake: Handshake;
  readonly heartbeats: Heartbeats;
  readonly results: Counter<'direction' | 'result'>;
}

/** The peer that authenticated. */
interface Sender {
  readonly name: string;
  readonly uid: string;
  readonly trustDomain: TrustDomain;
}

export function federationRoutes(parts: FederationRoutesParts): readonly PlaneRoute[] {
  const { trustDomain, peers, federations, inviter, redemptions, handshake } = parts;
  const { heartbeats, results } = parts;
  const rate = new PeerRate(parts.clock, messageLimit);
  const route = (
    path: string,
    handle: (request: PlaneRequest) => Promise<PlaneResponse>,
  ): PlaneRoute => ({ listener: 'federation', method: 'POST', path, handle });
  return [
    route(paths.preview, async (request) => {
      const message = parsePreviewRequest(await request.body(maxMessageBytes));
      return answer(await inviter.preview(message, strangerOf(request)));
    }),
    route(paths.redeem, async (request) => {
      if (request.peerChain.length === 0) {
        throw deny(parts, request, 'an invitation can only be redeemed with the SVID of a site');
      }
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
    }),
    route(paths.heartbeat, async (request) => {
      const sender = await peerOf(request);
      const body = await bodyOf(request, sender, maxHeartbeatBytes);
      // A body takes its time, and the peer may have been stopped meanwhile.
      await peerOf(request);
      await heartbeats.heard(sender.name, parseHeartbeat(body, sender.trustDomain, trustDomain));
      results.add({ direction: 'received', result: 'answered' });
      return answer(heartbeats.message(sender.name));
    }),
    route(paths.announce, async (request) => {
      const sender = await peerOf(request);
      const body = await bodyOf(request, sender, maxAnnouncementBytes);
      await peerOf(request);
      await federations.announced(sender.name, parseAnnouncement(body).bundleSequence);
      return { status: 204, contentType: 'application/json', body: '' };
    }),
  ];

  /** Refuses what is too much before it is parsed, and where there is no room for any before it is read. */
  async function bodyOf(request: PlaneRequest, sender: Sender, limit: number): Promise<Buffer> {
    const { name, uid } = sender;
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

  async function peerOf(request: PlaneRequest): Promise<Sender> {
    const svid = request.peer;
    if (svid === undefined) throw deny(parts, request, 'no SVID of a peer was presented');
    const { id } = svid;
    if (!id.equals(SpiffeId.of(id.trustDomain, 'hansa', 'site')) || id.memberOf(trustDomain)) {
      throw deny(parts, request, `${id.toString()} is not another site`);
    }
    const { name } = id.trustDomain;
    const peer = await peers.get(name);
    const state = peer?.status?.state;
    if (peer === undefined || !isLive(state)) {
      throw deny(parts, request, `${name} is ${state ?? 'not a peer'}`);
    }
    return { name, uid: peer.metadata.uid, trustDomain: id.trustDomain };
  }
}

/**
 * Why is told to the operator of this site, in the audit log; the caller learns that it is nobody
 * here. Whom it merely claims to be is told as well, but not as the one who did it: a stranger could
 * write under any name, and as many records as he has names.
 */
function deny(parts: FederationRoutesParts, request: PlaneRequest, reason: string): HansaError {
  const { peer, peerChain, address } = request;
  const claimed = peerChain[0]?.extensions.subjectAlternativeName?.uris[0];
  const code = 'HANSA_PEER_REFUSED';
  parts.audit.deny({
    actor: {
      user: peer?.id.toString() ?? 'system:anonymous',
      groups: [],
      via: peerChain.length === 0 ? 'anonymous' : 'certificate',
      ...(peerChain[0] === undefined ? {} : { credential: peerChain[0].serialHex }),
      ...(address === undefined ? {} : { address }),
    },
    verb: `peer.${request.path.split('/').at(-1) ?? 'call'}`,
    kind: 'FederationPeer',
    outcome: 'deny',
    code,
    reason:
      peer !== undefined || claimed === undefined
        ? reason
        : `${reason}: a certificate that is not believed claims to be ${excerpt(claimed)}`,
  });
  return peeringError(
    code,
    `${parts.trustDomain.name} does not take the certificate of the caller for that of a peer.`,
  );
}

function strangerOf({ peerChain, address }: PlaneRequest) {
  return { chain: peerChain, address };
}

function answer(message: Parameters<typeof encodeMessage>[0]): PlaneResponse {
  return { status: 200, contentType: 'application/json', body: encodeMessage(message) };
}
