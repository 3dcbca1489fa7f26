// Says why a cluster that left still has copies, and what removes them. Pure.

import { failureOf, type FailureReason } from '../../core/kube/reflector/reflector-failure.ts';
import type { Finding } from '../members/identity.ts';
import { importRemovalCommand, removalCommand } from '../names.ts';

const reasons: Partial<Record<FailureReason, Finding>> = {
  unauthorized: {
    reason: 'Unauthorized',
    message: 'The API server rejects the credential of this site.',
  },
  forbidden: {
    reason: 'Forbidden',
    message: 'The credential of this site lacks rights in the cluster.',
  },
  credential: { reason: 'NoCredential', message: 'This site has no credential of the cluster.' },
  unreachable: { reason: 'Unreachable', message: 'This site cannot reach the API server.' },
  certificate: {
    reason: 'BadCertificate',
    message: 'The certificate of the API server does not fit its CA.',
  },
};

export function explainFailure(error: unknown): Finding {
  const { reason, message } = failureOf(error);
  const known = reasons[reason] ?? { reason: 'Failing', message: 'Copies cannot be removed.' };
  return { reason: known.reason, message: `${known.message} ${message}` };
}

/** With the commands that do it in place of the site. */
export function withRemedy(clusterID: string, { reason, message }: Finding): Finding {
  return {
    reason,
    message: `${message} Copies may be left in ${clusterID}. To remove them: hansa cluster leave ${clusterID} --kubeconfig FILE, or in that cluster: ${removalCommand}, and where it has ServiceImports: ${importRemovalCommand}. Federated policies of other clusters are removed by the first command only.`,
  };
}
