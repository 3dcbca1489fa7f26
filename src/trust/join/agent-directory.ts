// Decides whether a caller is an agent of this site, for routes and streams that allow agents.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { AgentDirectory, JoinedAgent } from '../../core/plane/route.ts';
import type { Store } from '../../core/store/store.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { type Members, membersCollection } from './members.ts';
import { judgeVouching } from './vouching.ts';

export interface AgentDirectoryParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly members: Pick<Members, 'get'>;
  readonly federationState: { readonly current: FederationState };
  readonly authority: { onChange(listener: () => void): () => void };
}

/** A change in these collections can end the trust in an agent: its record, or the peer that vouched for it. */
const trustCollections = [
  membersCollection,
  federationPeerKind.plural,
  spiffeFederationKind.plural,
];

export function agentDirectory(parts: AgentDirectoryParts): AgentDirectory {
  const { store, authority } = parts;
  return {
    find: (svid) => findAgent(parts, svid),
    onChange: (listener) => {
      const watches = trustCollections.map((collection) =>
        store.watch(collection, store.revision, { changes: listener, ended: listener }),
      );
      const unhook = authority.onChange(listener);
      return () => {
        unhook();
        for (const watch of watches) watch.stop();
      };
    },
  };
}

function findAgent(
  { trustDomain, members, federationState }: AgentDirectoryParts,
  svid: ValidatedSvid | undefined,
): JoinedAgent | string {
  if (svid === undefined) return 'the caller presented no SVID of this site';
  const { id, serialHex } = svid;
  const [reserved, role, name, ...more] = id.segments;
  const isAgent = reserved === 'hansa' && role === 'agent' && more.length === 0;
  if (!id.memberOf(trustDomain) || !isAgent || name === undefined) {
    return `${id.toString()} is not an agent of this site`;
  }
  const member = members.get(`agent/${name}`)?.member;
  if (member === undefined) return `no agent ${name} has joined`;
  // A connection may be older than the newest renewal, so the previous SVID is accepted too. The SVID of
  // a forgotten agent is neither of the two, even if another machine joined under its name.
  if (serialHex !== member.serial && serialHex !== member.previousSerial) {
    return `agent ${name} has newer SVIDs than this one`;
  }
  const vouching = judgeVouching(member, trustDomain.name, federationState.current);
  return vouching.state === 'trusted' ? { name } : vouching.why;
}
