// One probe of an API server: can the site reach it, does it accept the site's credential, and may the
// site ask it for token reviews?

import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeRequest, KubeResponse } from '../../core/kube/kube-client.ts';
import type { ReviewedCluster } from './reviewed-cluster.ts';

const timeoutMs = 5_000;
const maxBytes = 64 * 1024;

/** The question "may I create TokenReviews?", which every authenticated client may ask. */
const mayReview: Pick<KubeRequest, 'method' | 'path' | 'body'> = {
  method: 'POST',
  path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
  body: {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: {
      resourceAttributes: {
        group: 'authentication.k8s.io',
        resource: 'tokenreviews',
        verb: 'create',
      },
    },
  },
};

/** Needs no rights. */
const version: Pick<KubeRequest, 'method' | 'path'> = { method: 'GET', path: '/version' };

export type ProbeReason =
  | 'Unreachable'
  | 'CertificateInvalid'
  | 'UnexpectedStatus'
  | 'CredentialMissing'
  | 'Unauthorized'
  | 'Forbidden';

export interface Probe {
  /** Whether the API server answered. */
  readonly answered: boolean;
  /** Why the site cannot use it; undefined where all is well. */
  readonly problem?: { readonly reason: ProbeReason; readonly message: string };
}

/** Rejects only with the reason of the signal. */
export async function probeCluster(
  { name, mode }: Pick<ReviewedCluster, 'name' | 'mode'>,
  client: KubeClient,
  signal: AbortSignal,
): Promise<Probe> {
  try {
    const question = mode === 'jwks' ? version : mayReview;
    return judge(name, mode, await client.request({ ...question, timeoutMs, maxBytes, signal }));
  } catch (caught) {
    signal.throwIfAborted();
    if (!(caught instanceof HansaError)) throw caught;
    const { message } = caught;
    switch (caught.code) {
      case 'HANSA_UNAVAILABLE':
        // The site did not connect, so nothing is known about the API server.
        return { answered: false, problem: { reason: 'CredentialMissing', message } };
      case 'HANSA_CERTIFICATE_INVALID':
        return { answered: false, problem: { reason: 'CertificateInvalid', message } };
      case 'HANSA_TOO_LARGE':
        return { answered: true, problem: { reason: 'UnexpectedStatus', message } };
      default:
        return { answered: false, problem: { reason: 'Unreachable', message } };
    }
  }
}

function judge(name: string, mode: ReviewedCluster['mode'], { status, body }: KubeResponse): Probe {
  if (status === 401) {
    return {
      answered: true,
      problem: {
        reason: 'Unauthorized',
        message:
          'The API server rejects the credential of this site (HTTP 401). The condition CredentialFresh says what to do.',
      },
    };
  }
  // 429: it is there, and busy. 403 to /version or to the question: it is there, and strict.
  if (status >= 500 || (status >= 300 && status < 400)) {
    return {
      answered: status < 500,
      problem: {
        reason: 'UnexpectedStatus',
        message: `The API server answers with HTTP status ${status}. Check spec.apiServer, and the API server itself.`,
      },
    };
  }
  if (mode !== 'jwks' && status === 201 && isRefusal(body)) {
    return {
      answered: true,
      problem: {
        reason: 'Forbidden',
        message: `The API server does not let this site create TokenReviews. Apply the RBAC again: hansa cluster add ${name}, or bind a ClusterRole with this right to the identity of this site.`,
      },
    };
  }
  return { answered: true };
}

function isRefusal(body: Buffer): boolean {
  try {
    const answer = JSON.parse(body.toString('utf8')) as { status?: { allowed?: unknown } } | null;
    return answer?.status?.allowed === false;
  } catch {
    return false;
  }
}
