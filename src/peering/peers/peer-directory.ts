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
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import type { Log } from '../../core/log/log.ts';
import type { LivePeer, PeerDirectory, Refused } from '../../core/plane/route.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { peeringError } from '../errors.ts';
import { grantsOf } from '../grants/grants-of-peer.ts';
import { PeerRate } from './peer-rate.ts';
import { peersCollection } from './peer-repository.ts';
import { distrustOf } from './peer-states.ts';

export interface PeerDirectoryParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly audit: Pick<Audit, 'deny'>;
  readonly log: Pick<Log, 'warn'>;
}

/**
 * Denied calls of one peer to targets of one type, whether they exist or not: a limit for each target would show
 * which ones exist. Calls that a grant covers go on.
 */
const denialLimit = { burst: 20, perSecond: 2 };
/** A site has fewer peers times types. The oldest are forgotten first, and then start with a full bucket. */
const maxDenied = 10_000;
/** Denials of one peer in the log. The audit log has all of them, aggregated. */
const logLimit = { burst: 5, perSecond: 0.1 };

const peersReader = kindReader(federationPeerKind);

/** A change in these collections can end the trust in a peer. */
const trustCollections = [peersCollection, federationGrantKind.plural, spiffeFederationKind.plural];

export function peerDirectory(parts: PeerDirectoryParts): PeerDirectory {
  const { trustDomain, store, clock } = parts;
  const logged = new PeerRate(clock, logLimit);
  const denials = new TokenBuckets({ clock, maxKeys: maxDenied, ...denialLimit });
  return {
    find: (svid) => {
      if (svid === undefined) return 'the caller presented no SVID of a peer';
      const { id } = svid;
      if (!id.equals(SpiffeId.of(id.trustDomain, 'hansa', 'site')) || id.memberOf(trustDomain)) {
        return `${id.toString()} is not another site`;
      }
      const { name } = id.trustDomain;
      const peer = peersReader.get(store, name);
      if (peer === undefined) return `${name} is not a peer`;
      const distrust = distrustOf(peer);
      if (distrust !== undefined) return `${name} is ${distrust}`;
      return { name, uid: peer.metadata.uid, trustDomain: id.trustDomain };
    },
    lacks: (peer: LivePeer, { scope, target, identity }, address) => {
      const { name, trustDomain: domain } = peer;
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
        grantsOf(store, name),
      );
      if (decision.covered) return undefined;
      if (denials.take(`${peer.uid} ${scope} ${target?.type ?? ''}`) !== undefined) {
        throw tooManyDenials(parts, peer, address);
      }
      return decision.reason;
    },
    refuse: (request, reason) => refuse(parts, request, reason),
    deny: (request, peer, reason) => deny(parts, logged, request, peer, reason),
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
  logged: PeerRate,
  request: Refused,
  { name, uid }: LivePeer,
  reason: string,
): HansaError {
  const code = 'HANSA_FORBIDDEN';
  const verb = verbOf(request.path);
  audit.deny({
    actor: actorOf(request),
    verb,
    kind: 'FederationPeer',
    name,
    outcome: 'deny',
    code,
    reason,
  });
  if (logged.take(uid)) log.warn('denied a call of a peer', { peer: name, verb, reason });
  return new HansaError(code, 'Denied.');
}

function tooManyDenials(
  { trustDomain, audit }: PeerDirectoryParts,
  { name, trustDomain: domain }: LivePeer,
  address: string | undefined,
): HansaError {
  const code = 'HANSA_TOO_MANY_REQUESTS';
  const reason = `more than ${denialLimit.perSecond} denied calls per second`;
  audit.deny({
    actor: {
      user: SpiffeId.of(domain, 'hansa', 'site').toString(),
      groups: [],
      via: 'certificate',
      ...(address === undefined ? {} : { address }),
    },
    verb: 'peer.call',
    kind: 'FederationPeer',
    name,
    outcome: 'deny',
    code,
    reason,
  });
  return new HansaError(
    code,
    `${trustDomain.name} does not answer: it denied too many of these calls. Retry later.`,
  );
}

/** The verb of a call to this path, in the audit log. */
export function verbOf(path: string): string {
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
    verb: verbOf(request.path),
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
