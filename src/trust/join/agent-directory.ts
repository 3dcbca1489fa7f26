// Decides whether a caller is an agent of this site, for routes and streams that allow agents.

import { hash } from 'node:crypto';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { clockSkewMs } from '../../core/identity/authority/phases.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { Log } from '../../core/log/log.ts';
import type { AgentDirectory, JoinedAgent } from '../../core/plane/route.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { agentOf, membersCollection } from './member-records.ts';
import type { Member, Members } from './members.ts';
import { recordRefusedSvid } from './refused-svids.ts';
import { reconnectsWithinMs } from './second-process.ts';
import { judgeVouching } from './vouching.ts';

export interface AgentDirectoryParts {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly members: Pick<Members, 'get'>;
  readonly federationState: { readonly current: FederationState };
  readonly authority: { onChange(listener: () => void): () => void };
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
}

/** How long after a join or a renewal a replica may not know of it. */
const replicaLagMs = 10_000;

/** A change in these collections can end the trust in the peer that vouched for agents. */
const trustCollections = [federationPeerKind.plural, spiffeFederationKind.plural];

export function agentDirectory(parts: AgentDirectoryParts): AgentDirectory {
  const { authority } = parts;
  return {
    find: (svid) => findAgent(parts, svid),
    refuse: ({ svid, address, wasAdmitted }, reason) => {
      if (wasAdmitted !== true && isNewHere(parts, svid)) {
        return new HansaError(
          'HANSA_UNAVAILABLE',
          'This replica of the site does not know this new SVID yet. Try again.',
        );
      }
      // An open stream of the agent itself becomes older than its two newest SVIDs, too.
      if (wasAdmitted !== true) reportOlder(parts, svid, address);
      return refusalOf(parts, svid, reason);
    },
    onChange: (listener) => {
      const all = (): void => listener(undefined);
      const stops = trustCollections.map((collection) => follow(parts, collection, all));
      stops.push(
        follow(parts, membersCollection, (names) => {
          const agents = names.flatMap((name) => agentOf(name) ?? []);
          if (agents.length > 0) listener(agents);
        }),
        authority.onChange(all),
      );
      return () => {
        for (const stop of stops) stop();
      };
    },
  };
}

/** Tells the names of changed records, also of those that changed while a watch was lost. */
function follow(
  { store, clock }: AgentDirectoryParts,
  collection: string,
  changed: (names: readonly string[]) => void,
): () => void {
  let isStarted = false;
  let isStopped = false;
  const due = new Set<string>();
  // Once per commit, because a source names a record once for each of its versions.
  const tell = async (): Promise<void> => {
    await Promise.resolve();
    const names = [...due];
    due.clear();
    if (!isStopped) changed(names);
  };
  const running = new StoreSource({ store, clock, collection }).start({
    add: (name) => {
      // Only changes count.
      if (!isStarted) return;
      if (due.size === 0) void tell();
      due.add(name);
    },
    // The store is closed.
    ended: () => undefined,
  });
  isStarted = true;
  return () => {
    isStopped = true;
    running.stop();
  };
}

function findAgent(
  { trustDomain, members, federationState }: AgentDirectoryParts,
  svid: ValidatedSvid | undefined,
): JoinedAgent | string {
  if (svid === undefined) return 'the caller presented no SVID of this site';
  const { id } = svid;
  const [reserved, role, name, ...more] = id.segments;
  const isAgent = reserved === 'hansa' && role === 'agent' && more.length === 0;
  if (!id.memberOf(trustDomain) || !isAgent || name === undefined) {
    return `${id.toString()} is not an agent of this site`;
  }
  // An earlier version let machines join under this name. Its entries are those of the site's machine.
  if (name === siteAgentName) return `${name} is the machine of the site itself`;
  const member = members.get(`agent/${name}`)?.member;
  if (member === undefined) return `no agent ${name} has joined`;
  const age = ageOf(svid, member);
  if (age === 'older') return `agent ${name} has newer SVIDs than this one`;
  const vouching = judgeVouching(member, trustDomain.name, federationState.current);
  if (vouching.state !== 'trusted') return vouching.why;
  return age === 'newest' ? { name } : { name, superseded: true };
}

/**
 * A connection may be older than the newest renewal, so the previous SVID is accepted too. A repeated
 * renewal gives the newest key another certificate. The SVID of a forgotten agent is neither of these,
 * even if another machine joined under its name.
 */
function ageOf(
  { serialHex, leaf }: Pick<ValidatedSvid, 'serialHex' | 'leaf'>,
  member: Member,
): 'newest' | 'previous' | 'older' {
  if (serialHex === member.serial) return 'newest';
  if (serialHex === member.previousSerial) return 'previous';
  const key = hash('sha256', leaf.spki, 'hex');
  if (key === member.key) return 'newest';
  return key === member.previousKey ? 'previous' : 'older';
}

/** Whether another replica may just have issued the SVID: it is newer than what this one knows. */
function isNewHere(
  { trustDomain, members, clock }: AgentDirectoryParts,
  svid: ValidatedSvid | undefined,
): boolean {
  if (svid === undefined || !svid.id.memberOf(trustDomain)) return false;
  if (clock.now() - (svid.notBeforeMs + clockSkewMs) >= replicaLagMs) return false;
  const instance = svid.id.path.replace(/^\/hansa\//, '');
  if (agentOf(instance) === undefined) return false;
  const member = members.get(instance)?.member;
  return member === undefined || ageOf(svid, member) === 'older';
}

/** Records an SVID of an agent that newer ones have replaced: its data folder may have been copied. */
function reportOlder(
  { trustDomain, store, members, clock, log }: AgentDirectoryParts,
  svid: ValidatedSvid | undefined,
  address: string | undefined,
): void {
  if (svid === undefined || !svid.id.memberOf(trustDomain)) return;
  const instance = svid.id.path.replace(/^\/hansa\//, '');
  const member = agentOf(instance) === undefined ? undefined : members.get(instance)?.member;
  const age = member && ageOf(svid, member);
  if (member === undefined || age === 'newest') return;
  // The agent itself, if the response to its renewal was lost. It repeats the renewal.
  if (age === 'previous' && clock.now() - member.renewedAtMs < reconnectsWithinMs) return;
  const why = `it tried to connect, and generation ${member.generation} is the newest`;
  const refused = { serial: svid.serialHex, why, ...(address === undefined ? {} : { address }) };
  recordRefusedSvid({ store, clock }, instance, refused).catch((error: unknown) =>
    log.warn('cannot record a refused SVID', { error, member: instance }),
  );
}

function refusalOf(
  { trustDomain, members }: AgentDirectoryParts,
  svid: ValidatedSvid | undefined,
  reason: string,
): HansaError {
  const [, role, name] = svid?.id.segments ?? [];
  const isForgotten =
    svid?.id.memberOf(trustDomain) === true &&
    role === 'agent' &&
    members.get(`agent/${name}`) === undefined;
  return isForgotten
    ? new HansaError(
        'HANSA_UNAUTHENTICATED',
        `This site has no agent ${name}: an operator has forgotten it, or it never joined. Join again with a join token.`,
      )
    : new HansaError('HANSA_FORBIDDEN', `Only agents of this site may call: ${reason}.`);
}
