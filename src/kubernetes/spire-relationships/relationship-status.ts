// Says how each relationship of a SPIRE server is, from what its sidecar reports. Pure.

import type { SpireServer } from '../../api/kinds/spire-server.ts';
import type { RelationshipCounts, SidecarDoubt, Warning } from '../spire/compile-conditions.ts';
import {
  readRefreshFailure,
  refreshAdvice,
  type RefreshFailure,
} from '../spire-endpoint/refresh-failure.ts';
import {
  type HeldRelationship,
  type Relationship,
  spireServerOrigin,
} from './parse-relationship.ts';
import { type StatusDocument, staleAfterSeconds } from './sidecar-contract.ts';

export type RelationshipEntry = NonNullable<
  NonNullable<SpireServer['status']>['relationships']
>[number];

export interface RelationshipQuestion {
  readonly relationships: readonly Relationship[];
  /** Trust domains of entries that cannot be used. */
  readonly held: readonly HeldRelationship[];
  /** Undefined: nobody reports. */
  readonly reported: StatusDocument | undefined;
  readonly by: 'ControllerManager' | 'Sidecar';
  /** The entries of the status as it is, for their times. */
  readonly known: readonly RelationshipEntry[];
  readonly nowMs: number;
}

type State = RelationshipEntry['state'];

/** Twice the time between two reports of a sidecar in a steady state. */
export const silentAfterSeconds = 1800;
/** Between two writes of `lastRefresh` where nothing else changed: it moves every few minutes. */
const refreshStepMs = 30 * 60_000;

export function relationshipEntries(question: RelationshipQuestion): readonly RelationshipEntry[] {
  const { relationships, held, reported, known, nowMs } = question;
  const knownOf = new Map(known.map((entry) => [entry.trustDomain, entry]));
  const reportedOf = new Map(
    (reported?.relationships ?? [])
      .filter(({ kept }) => !kept)
      .map((entry) => [entry.trustDomain, entry]),
  );
  const entryOf = (trustDomain: string, judged: Judged): RelationshipEntry => {
    const found = reportedOf.get(trustDomain);
    const before = knownOf.get(trustDomain);
    const since = before?.state === judged.state ? before.since : timeOf(nowMs);
    const lastRefresh = steady(
      before?.lastRefresh,
      found?.lastRefresh,
      before?.state !== judged.state,
    );
    return {
      trustDomain,
      state: judged.state,
      since,
      ...(lastRefresh !== undefined && { lastRefresh }),
      ...(judged.reason !== undefined && { reason: judged.reason }),
      ...(judged.message !== undefined && { message: judged.message }),
    };
  };
  const wanted = relationships.map((relationship) => {
    const found = reportedOf.get(relationship.trustDomain);
    const isCurrent = found?.bundleEndpointURL === relationship.bundleEndpointURL;
    return entryOf(
      relationship.trustDomain,
      judge(question, relationship, isCurrent ? found : undefined),
    );
  });
  return [...wanted, ...held.map((each) => entryOf(each.trustDomain, judgeHeld(each)))];
}

function judgeHeld({ from }: HeldRelationship): Judged {
  const see = from === spireServerOrigin ? 'FederationConfigurationValid' : 'FederationWarnings';
  return {
    state: 'Failed',
    reason: 'Invalid',
    message: `Its entry in ${from} cannot be used, and the server keeps what it has of it. See ${see}.`,
  };
}

/** `digest` is of the request that the sidecar should have carried out; undefined: there is no sidecar. */
export function sidecarDoubt(
  reported: StatusDocument | undefined,
  digest: string | undefined,
): SidecarDoubt | undefined {
  if (digest === undefined || reported === undefined) return undefined;
  const { problem, refusals = [], request, relationships } = reported;
  const doubt = (
    status: SidecarDoubt['status'],
    reason: SidecarDoubt['reason'],
    message: string,
  ): SidecarDoubt => ({ status, reason, message });
  if (problem !== undefined) {
    return doubt('False', 'SidecarFailed', `The sidecar cannot work: ${problem}`);
  }
  const left = relationships.filter(({ kept, lastError }) => kept && lastError !== undefined);
  if (left.length > 0) {
    const which = left.map(({ trustDomain, lastError }) => `${trustDomain}: ${lastError}`);
    return doubt(
      'False',
      'NotRemoved',
      `The server still has trust domains that were removed. ${which.join(' ')}`,
    );
  }
  if (refusals.length > 0) {
    return doubt(
      'False',
      'Refused',
      `The sidecar refuses a part of its request: ${refusals.join('. ')}.`,
    );
  }
  if (request === digest) return undefined;
  return doubt('Unknown', 'Pending', 'The sidecar has not carried out the newest request yet.');
}

interface Judged {
  readonly state: State;
  readonly reason?: string;
  readonly message?: string;
}

function judge(
  { by, nowMs, reported }: RelationshipQuestion,
  { trustDomain, profile, bundle }: Relationship,
  found: StatusDocument['relationships'][number] | undefined,
): Judged {
  if (by === 'ControllerManager') {
    return {
      state: 'Pending',
      reason: 'ControllerManager',
      message: 'spire-controller-manager hands it to SPIRE, which does not report its state.',
    };
  }
  if (found === undefined) {
    const problem = reported?.problem;
    return problem === undefined
      ? {
          state: 'Pending',
          reason: 'NotAtServer',
          message: 'The sidecar has not handed it to SPIRE yet.',
        }
      : {
          state: 'Failed',
          reason: 'SidecarFailed',
          message: `The sidecar cannot work: ${problem}`,
        };
  }
  const { hasBundle, lastError, lastRefresh } = found;
  const failure = lastError === undefined ? undefined : readRefreshFailure(lastError);
  const adviceOn = (cause: RefreshFailure['cause']): string =>
    refreshAdvice(cause, { trustDomain, profile });
  const why =
    failure === undefined ? '' : ` ${failure.words}. ${adviceOn(failure.cause)}`.trimEnd();
  if (!hasBundle) {
    const needsBootstrap =
      profile === 'https_spiffe' && bundle === undefined && failure?.cause !== 'not-bootstrapped';
    const advice = needsBootstrap ? ` ${adviceOn('not-bootstrapped')}` : '';
    return {
      state: failure === undefined ? 'Bootstrapping' : 'Failed',
      reason: failure === undefined ? 'NoBundle' : 'FetchFailed',
      message: `The server has no bundle of ${trustDomain}.${why}${advice}`,
    };
  }
  if (failure?.cause === 'misfit') {
    return {
      state: 'Failed',
      reason: 'OtherBundle',
      message: `No workload gets its bundle:${why}`,
    };
  }
  if (lastRefresh === undefined && failure !== undefined) {
    return {
      state: 'Failed',
      reason: 'NeverFetched',
      message: `SPIRE could not fetch the bundle of ${trustDomain} yet, and uses the one that it was given.${why}`,
    };
  }
  const ageMs = lastRefresh === undefined ? undefined : nowMs - Date.parse(lastRefresh);
  if (ageMs !== undefined && ageMs > staleAfterSeconds * 1000) {
    return {
      state: 'Stale',
      reason: 'NotRefreshed',
      message: `Its bundle was not refreshed for more than ${staleAfterSeconds / 60} minutes.${why === '' ? ' Check its bundle endpoint.' : why}`,
    };
  }
  if (failure !== undefined) {
    return { state: 'Fresh', reason: 'LastFetchFailed', message: `The last fetch failed:${why}` };
  }
  return { state: 'Fresh' };
}

/** A refresh every few minutes is no reason to write the status. */
function steady(
  before: string | undefined,
  now: string | undefined,
  isWrittenAnyway: boolean,
): string | undefined {
  if (now === undefined) return before;
  if (before === undefined || isWrittenAnyway) return wholeSeconds(now);
  const step = Date.parse(now) - Date.parse(before);
  return step >= 0 && step < refreshStepMs ? before : wholeSeconds(now);
}

const timeOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
const wholeSeconds = (time: string): string => timeOf(Date.parse(time));

export function countRelationships(entries: readonly RelationshipEntry[]): RelationshipCounts {
  const order: readonly State[] = ['Failed', 'Stale', 'Bootstrapping', 'Pending'];
  const worst = order
    .map((state) => entries.find((entry) => entry.state === state))
    .find((entry) => entry !== undefined);
  const failing = entries.find(({ reason }) => reason === 'LastFetchFailed');
  return {
    all: entries.length,
    fresh: entries.filter(({ state }) => state === 'Fresh').length,
    failing: failing && { trustDomain: failing.trustDomain, message: failing.message ?? '' },
    first: worst && {
      trustDomain: worst.trustDomain,
      state: worst.state,
      message: worst.message ?? '',
    },
  };
}

/** Another server that this site operates. */
export interface OtherServer {
  /** The name of its Cluster. */
  readonly cluster: string;
  readonly trustDomain: string;
  readonly federatesWith: ReadonlySet<string>;
}

/** Relationships that only one side has, and trust domains that two servers have. */
export function counterpartWarnings(
  trustDomain: string,
  relationships: readonly Relationship[],
  others: readonly OtherServer[],
): readonly Warning[] {
  const wanted = new Set(relationships.map((each) => each.trustDomain));
  return others.flatMap((other): readonly Warning[] => {
    if (other.trustDomain === trustDomain) {
      return [
        {
          reason: 'SameTrustDomain',
          message: `The server of the cluster ${other.cluster} has the trust domain ${trustDomain} too. Two servers cannot share one. Change one of them.`,
        },
      ];
    }
    if (!wanted.has(other.trustDomain) || other.federatesWith.has(trustDomain)) return [];
    return [
      {
        reason: 'NoCounterpart',
        message: `${other.trustDomain} (cluster ${other.cluster}) does not federate with ${trustDomain}. Add it to federatesWith of the SpireServer there, or calls work in one direction only.`,
      },
    ];
  });
}
