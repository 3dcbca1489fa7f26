// Examines one cluster as reviews use it: name, connection, certificate, clock, credential, rights, issuer,
// keys, and one review from end to end. Each failed step says what to do. It changes nothing.

import { humanDuration } from '../../api/values/duration.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { claimsOf } from '../../core/kube/credentials/token-claims.ts';
import type { KubeClient, KubeResponse } from '../../core/kube/kube-client.ts';
import { type Finding, ok, problem } from '../../core/plane/doctor.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys } from '../keys/cluster-keys.ts';
import { placeOf } from '../keys/jwks.ts';
import { mayForward } from '../keys/prove-keys.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import { askLimits, manifestOf, tried } from './ask.ts';
import {
  credentialRemedy,
  type ExaminedCluster,
  examineCredential,
  examineIssuer,
  examineRights,
  tokenOf,
} from './examine-access.ts';
import {
  clockFinding,
  connectionFindings,
  examineName,
  type LookUp,
  reachedFindings,
} from './examine-connection.ts';

export interface ExamineParts {
  readonly clock: Clock;
  readonly lookUp: LookUp;
  readonly keys: ClusterKeys;
  readonly reviewer: TokenReviewer;
}

/** In the order of the steps, up to the one without which later steps mean nothing. */
export async function examineCluster(
  parts: ExamineParts,
  cluster: ExaminedCluster,
): Promise<readonly Finding[]> {
  const { reviewed } = cluster;
  const findings: Finding[] = [];
  if (reviewed.client === undefined) {
    const where = reviewed.peer === undefined ? 'the issuer' : reviewed.peer.trustDomain;
    findings.push(ok('API server', `none: the site fetches the keys from ${where}`));
  } else {
    findings.push(...(await examineServer(parts, cluster, reviewed.client)));
  }
  const isBroken = findings.some(({ level }) => level === 'problem');
  findings.push(await examineKeys(parts, reviewed, isBroken));
  if (!findings.some(({ level }) => level === 'problem')) {
    findings.push(await examineReview(parts, cluster));
  }
  return findings;
}

async function examineServer(
  parts: ExamineParts,
  cluster: ExaminedCluster,
  client: KubeClient,
): Promise<readonly Finding[]> {
  const { object } = cluster;
  const name = await examineName(object, parts.lookUp, parts.clock);
  if (name?.level === 'problem') return [name];
  const findings: Finding[] = name === undefined ? [] : [name];
  const { clock } = parts;
  const sentAtMs = clock.now();
  let answer: KubeResponse;
  try {
    answer = await client.request({ method: 'GET', path: '/version', ...askLimits });
  } catch (error) {
    return [...findings, ...connectionFindings(object, error)];
  }
  findings.push(...reachedFindings(object, clock.now() - sentAtMs));
  findings.push(...clockFinding(answer, (sentAtMs + clock.now()) / 2));
  const credential = await examineCredential(object, client, answer);
  findings.push(credential);
  if (credential.level === 'problem') return findings;
  return [
    ...findings,
    ...(await examineRights(cluster, client)),
    await examineIssuer(object, client),
  ];
}

async function examineKeys(
  { keys, clock }: ExamineParts,
  reviewed: ReviewedCluster,
  isBroken: boolean,
): Promise<Finding> {
  // While the API server has a problem, the finding above says what to do.
  const known = keys.current(reviewed);
  const found = known ?? (await tried(() => keys.refresh(reviewed)));
  if (found instanceof HansaError) {
    const { peer } = reviewed;
    const remedy = isBroken
      ? 'Solve the problem above first.'
      : peer !== undefined
        ? `Check the peer (hansa peer show ${peer.trustDomain}) and what it grants to this site (hansa peer catalog ${peer.trustDomain}).`
        : 'The site needs the keys of the issuer to verify signatures. Check that the issuer, or the API server at /openid/v1/jwks, publishes them to the site.';
    return problem('keys', found.message, remedy);
  }
  const count = found.keys.length;
  if (reviewed.mode !== 'jwks' && !found.keys.some((key) => mayForward(reviewed, key))) {
    return problem(
      'keys',
      'the cluster has not proved that it signs with a key that it publishes, so the site sends it no tokens',
      isBroken
        ? 'Solve the problem above first.'
        : `The condition Ready says why: hansa cluster show ${reviewed.name}`,
    );
  }
  const age = humanDuration(Math.max(0, clock.now() - found.fetchedAtMs));
  return ok(
    'keys',
    `${count} ${count === 1 ? 'key' : 'keys'} from the ${placeOf(found)}, fetched ${age} ago`,
  );
}

/** Reviews the token of the site itself, because it is the only one that the site has. */
async function examineReview(
  { reviewer }: ExamineParts,
  { object, reviewed, credentials }: ExaminedCluster,
): Promise<Finding> {
  const token = reviewed.client === undefined ? undefined : await tokenOf(credentials);
  if (token === undefined || claimsOf(token)?.issuer !== reviewed.issuer) {
    return ok(
      'review',
      `not tried: the site has no token of this cluster. Try one with: hansa cluster review ${reviewed.name} < token`,
    );
  }
  const verdict = await tried(async () => reviewer.review(reviewed, { token, audiences: [] }));
  if (verdict instanceof HansaError) {
    return problem('review', verdict.message, 'The site cannot review tokens of this cluster now.');
  }
  if (verdict.authenticated) return ok('review', `its own token is ${verdict.user.username}`);
  return problem(
    'review',
    `its own token is denied${verdict.error === undefined ? '' : `: ${verdict.error}`}`,
    `Check spec.issuer and spec.apiAudiences (${manifestOf(object)}), and ${lowerCase(credentialRemedy(object))}`,
  );
}

function lowerCase(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
