// Decides from the state of its reflectors whether a member can be used. Pure.

import type { Failure, FailureReason } from '../../core/kube/reflector/reflector-failure.ts';
import { leaseName } from '../names.ts';
import type { Finding } from './identity.ts';

/** One thing that must work: a collection that is followed, or the Lease. */
export interface Followed {
  /** For messages: its plural. */
  readonly what: string;
  readonly isSynced: boolean;
  readonly failure: { readonly reason: FailureReason; readonly message: string } | undefined;
  /** Its kind is an addition, or may be missing later: then there are none, or the known ones stay. */
  readonly mayBeMissing: boolean;
}

export interface Judgement {
  /** All is read and followed. */
  readonly isWell: boolean;
  /** The worst failure. A member that is neither well nor failing is being read. */
  readonly failing: Finding | undefined;
}

/** The certificate of the API server does not fit the CA. */
export const badCertificate = 'BadCertificate';

/** The site follows the member, and cannot lead it. */
export const noLeader = 'NoLeader';

/** For messages, as `Followed.what`. */
export const leases = `leases (${leaseName})`;

/** Those that explain others come first. */
const severity: readonly FailureReason[] = [
  'certificate',
  'credential',
  'unauthorized',
  'unreachable',
  'forbidden',
  'not-found',
];

export function judgeMember(clusterID: string, followed: readonly Followed[]): Judgement {
  const failed = followed.filter((one) => one.failure !== undefined && !isExcused(one));
  const [worst] = failed.toSorted((a, b) => rank(a) - rank(b));
  if (worst !== undefined) return { isWell: false, failing: findingOf(clusterID, worst) };
  return {
    isWell: followed.every((one) => one.isSynced || isExcused(one)),
    failing: undefined,
  };
}

/** Its endpoints are well, so it stays ready. Only its copies are not kept current. */
export function noLeaderFinding(clusterID: string, failure: Failure): Finding {
  const why =
    failure.reason === 'forbidden'
      ? findingOf(clusterID, { what: leases, isSynced: true, failure, mayBeMissing: false })
      : failure;
  return {
    reason: noLeader,
    message: `This site follows the cluster, but cannot lead it. ${why.message}`,
  };
}

function isExcused({ mayBeMissing, failure }: Followed): boolean {
  return mayBeMissing && failure?.reason === 'not-found';
}

function rank({ failure }: Followed): number {
  const at = severity.indexOf(failure?.reason as FailureReason);
  return at < 0 ? severity.length : at;
}

function findingOf(clusterID: string, { what, failure }: Followed): Finding {
  const { reason, message } = failure as NonNullable<Followed['failure']>;
  const join = `hansa cluster join ${clusterID}`;
  switch (reason) {
    case 'certificate':
      return {
        reason: badCertificate,
        message: `${message} Correct the CA of ${clusterID} in its Secret, in Federation or in its Cluster.`,
      };
    case 'credential':
      return { reason: 'NoCredential', message };
    case 'unauthorized':
      return {
        reason: 'Unauthorized',
        message: `The API server rejects the credential of this site. Put a new token into the Secret of ${clusterID}, or renew the credential of its Cluster. ${message}`,
      };
    case 'unreachable':
      return {
        reason: 'Unreachable',
        message: `${message} Check the API server, and the network between it and this site.`,
      };
    case 'forbidden':
      return {
        reason: 'Forbidden',
        message: `The credential of this site lacks rights on ${what}. Apply the RBAC of the cluster again: ${join}. ${message}`,
      };
    case 'not-found':
      return {
        reason: 'NotInstalled',
        message: `The cluster does not serve ${what}. Install the CRDs: ${join}`,
      };
    case 'too-large':
    case 'over-limit':
      return { reason: 'TooLarge', message: `Cannot hold all ${what} of the cluster. ${message}` };
    default:
      return { reason: 'Failing', message: `Cannot follow ${what} of the cluster. ${message}` };
  }
}
