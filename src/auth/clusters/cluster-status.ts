// Computes the status of a Cluster from what the site knows about its keys and its API server. Pure.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { timestamp } from '../../api/object.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import { placeOf } from '../keys/jwks.ts';
import type { KeyState } from '../keys/key-cache.ts';
import { modeOf } from './compile-cluster.ts';
import type { Probe } from './probe-cluster.ts';

export type ClusterStatus = NonNullable<Cluster['status']>;
type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

export interface ClusterFindings {
  /** The host name of its endpoint. */
  readonly host: string;
  /** Undefined where this process has not fetched yet. */
  readonly keys: KeyState | undefined;
  /** Other clusters that publish one of its keys. */
  readonly sharedWith: readonly string[];
  /** Undefined where this process has not asked yet, or there is no API server. */
  readonly probe: Probe | undefined;
  readonly nowMs: number;
}

/** The live fields of the status, which change with every fetch. */
export function clusterFacts({ keys }: KeyState): Readonly<Record<string, unknown>> {
  return {
    keys: keys?.keys.length ?? 0,
    ...(keys && { keysFetchedAt: timestamp(keys.fetchedAtMs) }),
  };
}

/** Without live fields. Leaves conditions of other controllers alone, and those about which nothing is known yet. */
export function clusterStatus(cluster: Cluster, found: ClusterFindings): ClusterStatus {
  const { status = {}, metadata, spec } = cluster;
  let conditions = status.conditions;
  const set = (type: string, finding: Finding | undefined): void => {
    if (finding === undefined) return;
    const update = { type, ...finding, observedGeneration: metadata.generation };
    conditions = setCondition(conditions, update, found.nowMs);
  };
  set('KeysFresh', keysFinding(cluster, found));
  set('Reachable', reachableFinding(cluster, found));
  set('Ready', readyFinding(cluster, found));
  return {
    ...status,
    mode: modeOf(spec),
    host: found.host,
    ...(conditions && { conditions }),
  };
}

function keysFinding(
  { spec }: Cluster,
  { keys: state, sharedWith }: ClusterFindings,
): Finding | undefined {
  if (state === undefined) return undefined;
  const { keys, failure, isStale, skipped, copiedFrom, waiting } = state;
  if (keys === undefined) {
    return {
      status: 'False',
      reason: failure?.reason ?? 'Expired',
      message: `The site has no keys. ${failure?.message ?? ''}`.trim(),
    };
  }
  if (failure !== undefined && isStale) {
    return {
      status: 'False',
      reason: failure.reason,
      message: `The site uses the keys that it fetched at ${timestamp(keys.fetchedAtMs)}, until they are 24 hours old. ${failure.message}`,
    };
  }
  const count = keys.keys.length;
  const notes = [`${count} ${count === 1 ? 'key' : 'keys'} from the ${placeOf(keys)}.`];
  const [first] = skipped;
  if (first !== undefined) {
    notes.push(`Skipped ${skipped.length} more, the first (${first.index}) because ${first.why}.`);
  }
  if (modeOf(spec) !== 'jwks' && waiting > 0) {
    notes.push(
      `${waiting} of them ${waiting === 1 ? 'is' : 'are'} not proven, so reviews of tokens that ${waiting === 1 ? 'it' : 'they'} signed answer 503. The site notices when the cluster signs with such a key. If it stopped signing with it, tokens of before need spec.sharesKeys.`,
    );
  }
  const [other] = sharedWith;
  if (other !== undefined) {
    notes.push(
      copiedFrom.length === 0
        ? `Cluster ${other} publishes one of these keys too, and neither or both proved it. Unless both are the same cluster, delete the Cluster that should not have it. If both clusters sign with the same key, set spec.sharesKeys.`
        : `Cluster ${copiedFrom[0]} has other keys that this cluster publishes: it proved them, or published them first. So the site does not use them here. Delete the Cluster that should not have them. If both clusters sign with the same key, set spec.sharesKeys.`,
    );
  }
  return {
    status: 'True',
    reason: other === undefined ? 'Fetched' : 'SharedKeys',
    message: notes.join(' '),
  };
}

function reachableFinding({ spec }: Cluster, { probe }: ClusterFindings): Finding | undefined {
  if (spec.peer !== undefined) {
    return {
      status: 'Unknown',
      reason: 'OfPeer',
      message: `The cluster is one of ${spec.peer.trustDomain}, and this site does not call its API server.`,
    };
  }
  if (spec.apiServer === undefined) {
    return {
      status: 'Unknown',
      reason: 'NoAPIServer',
      message: 'The Cluster names no apiServer. Mode jwks needs none.',
    };
  }
  if (probe === undefined) return undefined;
  if (probe.answered) {
    return { status: 'True', reason: 'Answered', message: 'The API server answers.' };
  }
  const { reason = 'Unreachable', message = '' } = probe.problem ?? {};
  return { status: reason === 'CredentialMissing' ? 'Unknown' : 'False', reason, message };
}

/** Whether a review gets a verdict. */
function readyFinding({ spec }: Cluster, found: ClusterFindings): Finding | undefined {
  const { keys: state, probe } = found;
  const mode = modeOf(spec);
  // The site of a peer is not probed: its heartbeats and its keys tell whether it answers.
  const isProbed = mode !== 'jwks' && spec.peer === undefined;
  if (state !== undefined && state.keys === undefined) {
    const { reason = 'NoKeys', message = '' } = state.failure ?? {};
    return { status: 'False', reason, message: `Reviews answer 503. ${message}`.trim() };
  }
  const problem = isProbed ? (probe?.problem ?? state?.unproven) : undefined;
  if (problem !== undefined) {
    const { reason, message } = problem;
    return { status: 'False', reason, message: `Reviews answer 503. ${message}` };
  }
  if (state === undefined || (isProbed && probe === undefined)) return undefined;
  return {
    status: 'True',
    reason: 'Reviewing',
    message: `The site reviews tokens in mode ${mode}, at ${found.host}.`,
  };
}
