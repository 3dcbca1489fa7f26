// The condition CredentialFresh of a Cluster: whether its credential works, and what to do if not. Pure.

import { timestamp } from '../../api/object.ts';
import { isUrgent } from '../../core/kube/credentials/renewal-plan.ts';
import type {
  PickedCredential,
  RenewSettings,
  SourceType,
} from '../../core/kube/credentials/credential-source.ts';
import { problemReason } from '../../core/kube/credentials/credential-problem.ts';
import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';

/** A credential that others renew should be replaced before this share of its life is left. */
const lastShare = 0.1;

export interface CredentialView {
  readonly cluster: string;
  readonly type: SourceType;
  /** The credential, or why there is none. */
  readonly picked: PickedCredential | Error;
  readonly renew: RenewSettings | undefined;
  /** Why the last renewal failed. */
  readonly failure:
    | { readonly reason: string; readonly message: string; readonly isTemporary: boolean }
    | undefined;
  /** Whether the API server answered 401. */
  readonly isRefused: boolean;
}

type Verdict = Pick<ConditionUpdate, 'status' | 'reason' | 'message'>;

export const notNeeded: Verdict = {
  status: 'True',
  reason: 'NotNeeded',
  message: 'The site does not call the API server of this cluster.',
};

export function credentialCondition(view: CredentialView, nowMs: number): Verdict {
  const { cluster, type, picked, renew, failure, isRefused } = view;
  if (picked instanceof Error) {
    const reason = problemReason(picked) ?? 'Unusable';
    return { status: 'False', reason, message: picked.message };
  }
  const { credential, expiresAtMs, issuedAtMs } = picked;
  if (credential.type === 'none') {
    const message = 'The site reads the keys of the API server without a credential.';
    return { status: 'True', reason: 'NotNeeded', message };
  }
  const todo = whatToDo(type, cluster);
  const no = (reason: string, message: string): Verdict => ({ status: 'False', reason, message });
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs) {
    return no('Expired', `The credential expired at ${timestamp(expiresAtMs)}. ${todo}`);
  }
  if (isRefused) {
    return no(
      'Refused',
      `The API server rejects the credential (HTTP 401): it was revoked, the API server dropped the key that signed it, or it is for another API server. ${todo}`,
    );
  }
  const until = expiresAtMs === undefined ? '' : ` It expires at ${timestamp(expiresAtMs)}.`;
  if (failure !== undefined) {
    const message = `The site cannot renew the token: ${failure.message}.${until}`;
    const isBad = !failure.isTemporary || (renew && isUrgent(picked, renew, nowMs)) === true;
    return { status: isBad ? 'False' : 'Unknown', reason: failure.reason, message };
  }
  if (renew === undefined && type !== 'jwtSVID' && expiresAtMs !== undefined) {
    const lifeMs = expiresAtMs - (issuedAtMs ?? expiresAtMs);
    if (expiresAtMs - nowMs < lifeMs * lastShare) {
      return no('ExpiresSoon', `The credential was not replaced in time.${until} ${todo}`);
    }
  }
  return { status: 'True', ...fresh(view, picked) };
}

function fresh(
  { type, renew }: CredentialView,
  { credential, expiresAtMs, claims }: PickedCredential,
): Omit<Verdict, 'status'> {
  if (credential.type === 'certificate') {
    const message =
      'The client certificate is valid. The site cannot renew it: replace it before it expires.';
    return { reason: 'Fresh', message };
  }
  if (type === 'jwtSVID') {
    return { reason: 'Fresh', message: 'The site presents a JWT-SVID of its own.' };
  }
  const who = claims?.subject === undefined ? '' : ` of ${claims.subject.slice(0, 400)}`;
  if (expiresAtMs === undefined) {
    const message =
      claims === undefined
        ? 'The token is not a JWT, so the site does not know when it expires and cannot renew it.'
        : `The token${who} does not expire. Prefer one of \`kubectl create token\`.`;
    return { reason: claims === undefined ? 'ExpiryUnknown' : 'NeverExpires', message };
  }
  const how =
    renew === undefined
      ? 'The site reads a new one from its file.'
      : 'The site renews it before it expires.';
  return { reason: 'Fresh', message: `The token${who} is valid. ${how}` };
}

function whatToDo(type: SourceType, cluster: string): string {
  switch (type) {
    case 'stored':
      return `Get a new one: run hansa cluster add ${cluster} again, or set one with: hansa cluster credential set ${cluster}`;
    case 'tokenFile':
      return 'Write a new token into the file of spec.credential.tokenFile.';
    case 'clientCertificate':
      return 'Replace the files of spec.credential.clientCertificate.';
    case 'inCluster':
      return 'Check the ServiceAccount of the Pod that the site runs in.';
    case 'jwtSVID':
      return `Check that the API server uses the configuration of: hansa cluster auth-config ${cluster}`;
  }
}
