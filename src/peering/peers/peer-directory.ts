// Finds the live peer behind a connection, for routes and streams that allow peers. The identity comes
// from the verified certificate, never from a header or the message.

import { decideGrant } from '../../api/grants.ts';
import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { excerpt, type TrustDomain } from '../../api/values/trust-domain.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import type { LivePeer, PeerDirectory, Refused } from '../../core/plane/route.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { peeringError } from '../errors.ts';
import { PeerRate } from './peer-rate.ts';
import { peersCollection } from './peer-repository.ts';
import { isLive } from './peer-states.ts';

export interface PeerDirectoryParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'deny'>;
  readonly log: Pick<Log, 'warn'>;
}

/** Denials of one peer in the log. The audit log has all of them, aggregated. */
const logLimit = { burst: 5, perSecond: 0.1 };

const peersReader = kindReader(federationPeerKind);
const grantsReader = kindReader(federationGrantKind);

/** A change in these collections can end the trust in a peer. */
const trustCollections = [peersCollection, federationGrantKind.plural, spiffeFederationKind.plural];

export function peerDirectory(parts: PeerDirectoryParts): PeerDirectory {
  const { trustDomain, store, clock } = parts;
  const denials = new PeerRate(clock, logLimit);
  return {
    find: (svid) => {
      if (svid === undefined) return 'the caller presented no SVID of a peer';
      const { id } = svid;
      if (!id.equals(SpiffeId.of(id.trustDomain, 'hansa', 'site')) || id.memberOf(trustDomain)) {
        return `${id.toString()} is not another site`;
      }
      const { name } = id.trustDomain;
      const peer = peersReader.get(store, name);
      const state = peer?.status?.state;
      if (peer === undefined || !isLive(state)) return `${name} is ${state ?? 'not a peer'}`;
      return { name, uid: peer.metadata.uid, trustDomain: id.trustDomain };
    },
    lacks: ({ name, trustDomain: domain }: LivePeer, { scope, target, identity }, address) => {
      const decision = decideGrant(
        {
          peer: name,
          spiffeID:
            identity === 'any' ? undefined : SpiffeId.of(domain, 'hansa', 'site').toString(),
          target,
          need: { scope },
          sourceAddress: address ?? '',
          nowMs: clock.now(),
        },
        peersReader.get(store, name),
        grantsReader.list(store),
      );
      return decision.covered ? undefined : decision.reason;
    },
    refuse: (request, reason) => refuse(parts, request, reason),
    deny: (request, peer, reason) => deny(parts, denials, request, peer, reason),
    onChange: (listener) => {
      const watches = trustCollections.map((collection) =>
        store.watch(collection, store.revision, { changes: listener, ended: listener }),
      );
      return () => {
        for (const watch of watches) watch.stop();
      };
    },
  };
}

/**
 * Audit log and log contain the reason, with the axis that failed. The caller only learns that it is
 * denied, so that it cannot explore the grants of this site.
 */
function deny(
  { audit, log }: PeerDirectoryParts,
  denials: PeerRate,
  request: Refused,
  { name, uid }: LivePeer,
  reason: string,
): HansaError {
  const code = 'HANSA_FORBIDDEN';
  const verb = verbOf(request);
  audit.deny({
    actor: actorOf(request),
    verb,
    kind: 'FederationPeer',
    name,
    outcome: 'deny',
    code,
    reason,
  });
  if (denials.take(uid)) log.warn('denied a call of a peer', { peer: name, verb, reason });
  return new HansaError(code, 'Denied.');
}

function verbOf({ path }: Refused): string {
  return `peer.${path.split('/').at(-1) ?? 'call'}`;
}

function actorOf({ svid, peerChain, address }: Refused) {
  return {
    user: svid?.id.toString() ?? 'system:anonymous',
    groups: [],
    via: peerChain.length === 0 ? 'anonymous' : 'certificate',
    ...(peerChain[0] === undefined ? {} : { credential: peerChain[0].serialHex }),
    ...(address === undefined ? {} : { address }),
  } as const;
}

/**
 * The audit log contains the reason. The caller only learns that it is not a peer. A claimed identity
 * appears in the reason, but not as the actor: otherwise a stranger could create one record for each
 * name that it claims.
 */
function refuse(parts: PeerDirectoryParts, request: Refused, reason: string): HansaError {
  const { svid, peerChain } = request;
  const claimed = peerChain[0]?.extensions.subjectAlternativeName?.uris[0];
  const code = 'HANSA_PEER_REFUSED';
  parts.audit.deny({
    actor: actorOf(request),
    verb: verbOf(request),
    kind: 'FederationPeer',
    outcome: 'deny',
    code,
    reason:
      svid !== undefined || claimed === undefined
        ? reason
        : `${reason}: an untrusted certificate claims to be ${excerpt(claimed)}`,
  });
  return peeringError(
    code,
    `${parts.trustDomain.name} does not accept the certificate of the caller as that of a peer.`,
  );
}
