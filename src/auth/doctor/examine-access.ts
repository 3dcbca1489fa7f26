// The steps of an examination that concern what the API server lets the site do: credential, rights and the
// published issuer.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { ClusterCredentialSource } from '../../core/kube/credentials/credential-source.ts';
import { claimsOf } from '../../core/kube/credentials/token-claims.ts';
import type { KubeClient, KubeRequest, KubeResponse } from '../../core/kube/kube-client.ts';
import { printableText } from '../../core/kube/kube-errors.ts';
import { type Finding, ok, problem, warning } from '../../core/plane/doctor.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { askLimits, at, jsonOf, manifestOf, tried } from './ask.ts';

export interface ExaminedCluster {
  readonly object: Cluster;
  readonly reviewed: ReviewedCluster;
  readonly credentials: Pick<ClusterCredentialSource, 'current' | 'renew'>;
}

/** The token of the site at this cluster; undefined where it has another credential, or none. */
export async function tokenOf(
  credentials: Pick<ClusterCredentialSource, 'current'>,
): Promise<string | undefined> {
  const credential = await tried(async () => credentials.current());
  if (credential instanceof HansaError || credential.type !== 'token') return undefined;
  return credential.token;
}

/** What to do about a credential that does not work. */
export function credentialRemedy({ metadata, spec }: Cluster): string {
  const { name } = metadata;
  const { tokenFile, clientCertificate, inCluster, jwtSVID } = spec.credential ?? {};
  if (tokenFile !== undefined)
    return `Write a new token into ${tokenFile} below auth.credentialsDir.`;
  if (clientCertificate !== undefined) {
    return `Write a new certificate and key into ${clientCertificate.certFile} and ${clientCertificate.keyFile} below auth.credentialsDir.`;
  }
  if (inCluster === true) return 'Check the ServiceAccount of the Pod of this site.';
  if (jwtSVID !== undefined) {
    return `Check that the API server trusts this site: hansa cluster auth-config ${name}`;
  }
  return `Run hansa cluster add ${name} again, or set a new credential: hansa cluster credential set ${name}`;
}

const selfReview = {
  method: 'POST',
  path: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
  body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
  ...askLimits,
} as const satisfies KubeRequest;

/** Whether the API server accepts the credential, and as whom. */
export async function examineCredential(
  object: Cluster,
  client: KubeClient,
  version: KubeResponse,
): Promise<Finding> {
  if (version.status >= 500) {
    return problem(
      'HTTP',
      `the API server answers with HTTP status ${version.status}`,
      'Check the API server itself, and its log.',
    );
  }
  const refused = problem(
    'credential',
    'the API server rejects it (HTTP status 401)',
    credentialRemedy(object),
  );
  if (version.status === 401) return refused;
  const answer = await tried(() => client.request(selfReview));
  if (answer instanceof HansaError)
    return problem('credential', answer.message, credentialRemedy(object));
  if (answer.status === 401) return refused;
  const user = at(jsonOf(answer), 'status', 'userInfo', 'username');
  return typeof user === 'string'
    ? ok('credential', `accepted as ${printableText(user, 256)}`)
    : ok('credential', `accepted (the API server does not say as whom: ${answer.status})`);
}

interface RightQuestion {
  readonly attributes: object;
  readonly text: string;
}

const reviewRight: RightQuestion = {
  attributes: { group: 'authentication.k8s.io', resource: 'tokenreviews', verb: 'create' },
  text: 'create tokenreviews.authentication.k8s.io',
};

export async function examineRights(
  { reviewed, credentials }: Pick<ExaminedCluster, 'reviewed' | 'credentials'>,
  client: KubeClient,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  if (reviewed.mode !== 'jwks') {
    findings.push(
      await examineRight(
        client,
        reviewRight,
        problem,
        `Reviews answer 503. Apply the RBAC again: hansa cluster add ${reviewed.name}, or bind a ClusterRole with this right to the identity of the site.`,
      ),
    );
  }
  const token = credentials.renew === undefined ? undefined : await tokenOf(credentials);
  const account = token === undefined ? undefined : claimsOf(token)?.serviceAccount;
  if (account !== undefined) {
    const { namespace, name } = account;
    const attributes = {
      namespace,
      resource: 'serviceaccounts',
      subresource: 'token',
      name,
      verb: 'create',
    };
    findings.push(
      await examineRight(
        client,
        { attributes, text: `create serviceaccounts/token of ${namespace}/${name}` },
        warning,
        `The site cannot renew its token, and the cluster cannot prove its keys. Apply the RBAC again: hansa cluster add ${reviewed.name}`,
      ),
    );
  }
  return findings;
}

async function examineRight(
  client: KubeClient,
  { attributes, text }: RightQuestion,
  failure: typeof problem,
  remedy: string,
): Promise<Finding> {
  const answer = await tried(() =>
    client.request({
      method: 'POST',
      path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
      body: {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: { resourceAttributes: attributes },
      },
      ...askLimits,
    }),
  );
  if (answer instanceof HansaError) return warning('rights', answer.message, remedy);
  if (answer.status !== 201) {
    return warning(
      'rights',
      `the API server does not say whether the site may ${text} (HTTP status ${answer.status})`,
      'Check the RBAC of the site in the cluster.',
    );
  }
  return at(jsonOf(answer), 'status', 'allowed') === true
    ? ok('rights', `may ${text}`)
    : failure('rights', `may not ${text}`, remedy);
}

export async function examineIssuer(object: Cluster, client: KubeClient): Promise<Finding> {
  const { issuer } = object.spec;
  const answer = await tried(() =>
    client.request({
      method: 'GET',
      path: '/.well-known/openid-configuration',
      ...askLimits,
    }),
  );
  const remedy =
    'The API server does not publish its issuer to this site. Bind the ClusterRole system:service-account-issuer-discovery to the identity of the site.';
  if (answer instanceof HansaError) return warning('issuer', answer.message, remedy);
  if (answer.status !== 200) {
    return warning('issuer', `not published (HTTP status ${answer.status})`, remedy);
  }
  const theirs = at(jsonOf(answer), 'issuer');
  if (theirs === issuer) return ok('issuer', `${issuer}, as the API server says`);
  const shown = typeof theirs === 'string' ? printableText(theirs, 256) : 'no issuer';
  return problem(
    'issuer',
    `the Cluster says ${issuer}, the API server says ${shown}`,
    `The site denies every token of another issuer. Set spec.issuer to the first --service-account-issuer of the API server: ${manifestOf(object)}`,
  );
}
