// Says in the status of a Cluster whether the site operates its SPIRE server. Pure.

import { printableText } from '../../core/kube/kube-errors.ts';
import type { FailureReason } from '../../core/kube/reflector/reflector-failure.ts';
import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';
import type { SpireCluster } from './spire-cluster.ts';

type Finding = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

const reasons: Readonly<Partial<Record<FailureReason, string>>> = {
  unreachable: 'Unreachable',
  certificate: 'Unreachable',
  credential: 'CredentialMissing',
  unauthorized: 'Unauthorized',
  forbidden: 'Forbidden',
  'not-found': 'NotInstalled',
};
const mostLength = 1024;

export function spireFinding(
  cluster: string,
  {
    failure,
    isFollowed,
    server,
    mark,
  }: Pick<SpireCluster, 'failure' | 'isFollowed' | 'server' | 'mark'>,
): Finding {
  if (failure !== undefined) {
    const needsInstallation = failure.reason === 'forbidden' || failure.reason === 'not-found';
    const advice = needsInstallation
      ? ` Install the CRD and the rights: hansa spire install ${cluster} --kubeconfig FILE`
      : '';
    return {
      status: 'False',
      reason: reasons[failure.reason] ?? 'Failed',
      message: `${printableText(failure.message, mostLength)}${advice}`,
    };
  }
  if (!isFollowed) {
    return {
      status: 'Unknown',
      reason: 'Reading',
      message: 'The site reads the SpireServer of the cluster for the first time.',
    };
  }
  if (server === undefined) {
    const which = mark.className === '' ? 'without a class' : `of the class ${mark.className}`;
    return {
      status: 'True',
      reason: 'NoSpireServer',
      message: `The cluster has no SpireServer ${which}.`,
    };
  }
  const failed = server.conditions.filter(
    ({ type, status }) => status === 'False' && type !== 'FederationWarnings',
  );
  const [first] = failed.filter(({ reason }) => reason !== 'NotFederated');
  if (first !== undefined) {
    return {
      status: 'True',
      reason: first.reason,
      message: printableText(`${first.type}: ${first.message}`, mostLength),
    };
  }
  return {
    status: 'True',
    reason: 'Operated',
    message: `The site operates the SPIRE server of ${server.trustDomain}.`,
  };
}
