// Why a question to the API server of a cluster, or to the site of a peer, got no answer. For the caller: causes go to
// the log, because they may contain addresses.

import { hasCode } from '../../core/errors/error.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { UncheckedError } from './unchecked-error.ts';

type Asked = Pick<ReviewedCluster, 'name' | 'peer'>;

/** Who is asked about tokens of the cluster. */
export function upstreamOf({ peer }: Pick<ReviewedCluster, 'peer'>): string {
  return peer === undefined ? 'its API server' : `the site of ${peer.trustDomain}`;
}

export function unreachable({ name }: Asked, why: string, cause?: unknown): UncheckedError {
  return new UncheckedError(
    'unreachable',
    name,
    `${why} Run \`hansa cluster check ${name}\` to see what is wrong.`,
    { cause },
  );
}

export function busy(cluster: Asked): UncheckedError {
  return new UncheckedError(
    'busy',
    cluster.name,
    `${upstreamOf(cluster)} is too slow for the number of reviews. Try again later.`,
    { retryAfterSeconds: 1 },
  );
}

export function noAPIServer({ name }: Asked): UncheckedError {
  return new UncheckedError(
    'unreachable',
    name,
    'the Cluster has no apiServer. Set spec.apiServer, or spec.validation.mode to jwks.',
  );
}

export function failureOf(cluster: Asked, caught: unknown): UncheckedError {
  const { name, peer } = cluster;
  if (hasCode(caught, 'HANSA_UNAVAILABLE')) {
    // Too many calls to the peer wait.
    if (peer !== undefined) return busy(cluster);
    return new UncheckedError(
      'credential',
      name,
      `this site has no credential for its API server. Run \`hansa cluster check ${name}\` to see what is wrong.`,
      { cause: caught },
    );
  }
  if (peer !== undefined && hasCode(caught, 'HANSA_PEER_UNTRUSTED')) {
    return new UncheckedError(
      'credential',
      name,
      `this site does not trust ${peer.trustDomain} now. To see why: hansa peer show ${peer.trustDomain}`,
      { cause: caught },
    );
  }
  const who = upstreamOf(cluster);
  return unreachable(
    cluster,
    hasCode(caught, 'HANSA_CERTIFICATE_INVALID')
      ? `this site does not trust the certificate of ${who}.`
      : `${who} does not answer.`,
    caught,
  );
}

/** Statuses that the next review would get too; undefined for others. */
export function failureOfStatus(cluster: Asked, status: number): UncheckedError | undefined {
  const refusal = refusalOf(cluster, status);
  if (refusal !== undefined) return new UncheckedError('credential', cluster.name, refusal);
  return status === 502 || status === 503 || status === 504
    ? unreachable(cluster, `${upstreamOf(cluster)} answered HTTP ${status}.`)
    : undefined;
}

function refusalOf({ name, peer }: Asked, status: number): string | undefined {
  if (peer !== undefined) {
    const { trustDomain, cluster } = peer;
    if (status === 401 || status === 403) {
      return `${trustDomain} denies its cluster ${cluster} to this site. Ask its operator for a grant with the scope read.`;
    }
    return status === 404
      ? `${trustDomain} has no cluster ${cluster} of its own, or runs a version that reviews no tokens for peers.`
      : undefined;
  }
  switch (status) {
    case 401:
      return `its API server does not accept the credential of this site. Run \`hansa cluster credential set ${name}\`.`;
    case 403:
      return `the credential of this site may not create TokenReviews there. Apply the RBAC again: \`hansa cluster add ${name}\`.`;
    default:
      return undefined;
  }
}
