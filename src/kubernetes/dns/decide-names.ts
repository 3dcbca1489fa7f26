// Decides which cluster carries the DNS names of a federated Service, and what its users are told. ExternalDNS
// may run in each cluster: two that write one name would fight over it. Pure.

import type { Outcome } from '../services/compile-plan.ts';
import type { AskedNames, NameSettings } from './asked-names.ts';
import type { Hostnames } from './hostnames.ts';
import type { WantedNames } from './name-annotations.ts';
import type { NameClaim } from './name-claims.ts';

/** A member that Federation marks for names. */
export interface Carrier {
  readonly clusterID: string;
  /** Whether it can be reached, has the namespace of the copy, and nothing of a user in its place. */
  readonly isAble: boolean;
}

export interface DecideOptions {
  readonly key: string;
  readonly target: string;
  readonly asked: AskedNames;
  /** By cluster ID. */
  readonly carriers: readonly Carrier[];
  readonly addresses: readonly string[];
  /** What the plane wrote on the copy in the target. */
  readonly written: WantedNames;
  readonly whenUnhealthy: NameSettings['whenUnhealthy'];
  readonly winner: (name: string) => NameClaim | undefined;
}

export interface NameDecision {
  /** For the copy in the target. */
  readonly wanted: WantedNames;
  /** For member Services in the target; undefined where there is nothing to say. */
  readonly outcome: Outcome | undefined;
  /** For the copy, where a user wrote a name on it. */
  readonly outcomeByHand: Outcome | undefined;
}

const nothing: WantedNames = { hostname: undefined, target: undefined };

export function decideNames(options: DecideOptions): NameDecision {
  const { target, asked, carriers, addresses } = options;
  const own = asked.byHand.get(target);
  const carrier = carriers.find(({ clusterID, isAble }) => isAble && !asked.byHand.has(clusterID));
  const won = wonNames(options, asked, '');
  const outcome = outcomeOf(options, won, carrier);
  if (own !== undefined) {
    const ownWon = wonNames(options, own, target);
    const isWhole = ownWon.lost.length === 0 && own.problems.length === 0;
    const isOurs = isWhole && ownWon.names.length > 0;
    return {
      // Targets would publish each name in the annotation, so all must be right.
      wanted: isOurs ? { hostname: undefined, target: targetOf(options) } : nothing,
      outcome,
      outcomeByHand:
        refusal(own, ownWon) ??
        (addresses.length === 0 ? noAddress(options) : published(ownWon.names, target)),
    };
  }
  const isCarried = carrier?.clusterID === target && won.names.length > 0;
  const targetText = isCarried ? targetOf(options) : undefined;
  return {
    wanted:
      targetText === undefined ? nothing : { hostname: won.names.join(','), target: targetText },
    outcome,
    outcomeByHand: undefined,
  };
}

/** Undefined where the name should go. */
function targetOf({ addresses, whenUnhealthy, written }: DecideOptions): string | undefined {
  if (addresses.length > 0) return addresses.join(',');
  return whenUnhealthy === 'keep' ? written.target : undefined;
}

interface Won {
  readonly names: readonly string[];
  /** Names that the same federated Service has by hand, on the copy of one cluster. */
  readonly elsewhere: readonly NameClaim[];
  readonly lost: readonly NameClaim[];
}

/** Of the names that the copy of one cluster carries; empty for those that any cluster may carry. */
function wonNames({ key, winner }: DecideOptions, { names }: Hostnames, clusterID: string): Won {
  const lost: NameClaim[] = [];
  const elsewhere: NameClaim[] = [];
  const own = names.filter((name) => {
    const claim = winner(name);
    if (claim === undefined || (claim.key === key && claim.clusterID === clusterID)) return true;
    (claim.key === key && clusterID === '' ? elsewhere : lost).push(claim);
    return false;
  });
  return { names: own, elsewhere, lost };
}

function outcomeOf(
  options: DecideOptions,
  won: Won,
  carrier: Carrier | undefined,
): Outcome | undefined {
  const { asked, carriers, addresses } = options;
  const refused = refusal(asked, won);
  if (refused !== undefined) return refused;
  if (won.names.length === 0) {
    const [first] = won.elsewhere;
    return first && published([first.name], first.clusterID);
  }
  if (carrier === undefined) {
    const message =
      carriers.length === 0
        ? `No cluster carries ${won.names.join(', ')}. Set dns: true in Federation for a member in which ExternalDNS runs.`
        : `No cluster can carry ${won.names.join(', ')} now: each member with dns: true in Federation is unreachable, lacks the namespace of the copy, or has another Service or a name by hand in its place.`;
    return { status: 'False', reason: 'NoDnsMember', message };
  }
  if (addresses.length === 0) return noAddress(options);
  return published(won.names, carrier.clusterID);
}

function noAddress({ whenUnhealthy }: DecideOptions): Outcome {
  const rest =
    whenUnhealthy === 'keep'
      ? 'It keeps its last addresses.'
      : 'It is not published until there is one.';
  return {
    status: 'False',
    reason: 'NoReachableAddress',
    message: `The name leads nowhere: no ready member Service has an address that can be reached from outside of its cluster. ${rest}`,
  };
}

function published(names: readonly string[], clusterID: string): Outcome {
  return {
    status: 'True',
    reason: 'Published',
    message: `The copy in ${clusterID} carries ${names.join(', ')} for ExternalDNS.`,
  };
}

function refusal({ problems }: Hostnames, { names, lost }: Won): Outcome | undefined {
  const taken = lost.map(({ name, key, clusterID }) =>
    clusterID === ''
      ? `${name} is refused: the federated Service ${key} has it. Choose another name.`
      : `${name} is refused: the copy of ${key} in ${clusterID} has it by hand. Choose another name, or remove that one.`,
  );
  const all = [...problems, ...taken];
  if (all.length === 0) return undefined;
  const rest = names.length === 0 ? [] : [`Still published: ${names.join(', ')}.`];
  return {
    status: 'False',
    reason: problems.length > 0 ? 'HostnameRefused' : 'HostnameTaken',
    message: [...all, ...rest].join(' '),
  };
}
