// Proof of possession: a cluster proves a key that it publishes by a token that it signs for this site. Public
// keys can be copied by every cluster, so without a proof no token goes to its API server.
//
// The audience of the token names this site, the Cluster and a nonce. So neither a token of another registration nor
// one of before is a proof. Who can get tokens for any audience from another cluster, and may register clusters
// here, can still pass such a token on: then two clusters prove one key, and key-memory.ts says what follows.

import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { postTokenRequest, tokenInAnswer } from '../../core/kube/credentials/token-request.ts';
import type { KubeResponse } from '../../core/kube/kube-client.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import { judgeClaims } from '../review/judge-claims.ts';
import { type ReadToken, readToken } from '../review/read-token.ts';
import type { KeySet, VerificationKey } from './cluster-keys.ts';
import { keySetOf } from './jwks.ts';
import { failureOf, type KeyFailure, problem } from './key-failure.ts';

/** An API server signs in milliseconds. */
const timeoutMs = 5_000;
/** The least that kube-apiserver grants. The site forgets the token at once. */
const seconds = 600;
const nonceBytes = 16;

/** A ServiceAccount of the cluster. */
interface Account {
  readonly namespace: string;
  readonly name: string;
}

export interface KeyProverParts {
  readonly clock: Clock;
  readonly random: Pick<Random, 'bytes'>;
  readonly trustDomain: string;
  /** Undefined where the site calls the API server without a credential. */
  readonly proofOf: (cluster: StoredCluster) => Promise<Proof | undefined>;
}

/** Where the proof comes from: a TokenRequest for this ServiceAccount, or the token of the Pod of the site. */
export type Proof =
  | { readonly type: 'request'; readonly account: Account }
  /** Kubernetes mounted it, and the site uses it only inside of its cluster. So it is that of no other cluster. */
  | { readonly type: 'mounted'; readonly token: string };

/** Which of the keys signed, or why that is not known. Rejects only with the reason of the signal. */
export type ProveKey = (
  cluster: StoredCluster,
  keys: KeySet,
  signal: AbortSignal,
) => Promise<VerificationKey | KeyFailure>;

export function keyProver({ clock, random, trustDomain, proofOf }: KeyProverParts): ProveKey {
  const request = async (
    { name, uid, client, issuer }: StoredCluster,
    keys: KeySet,
    account: Account,
    signal: AbortSignal,
  ): Promise<VerificationKey> => {
    if (client === undefined) throw withoutCredential();
    const nonce = Buffer.from(await random.bytes(nonceBytes)).toString('base64url');
    const audiences = [`hansa://${trustDomain}/clusters/${name}/${uid}/${nonce}`];
    const question = { account, audiences, seconds, timeoutMs };
    const response = await postTokenRequest(client, question, signal);
    if (response.status !== 200 && response.status !== 201) {
      throw refused(response, account, name);
    }
    const answer = tokenInAnswer(response);
    if (typeof answer === 'string') throw unproven(`the answer to a TokenRequest ${answer}.`);
    const { token, key } = signedBy(keys, answer.token, issuer);
    const verdict = judgeClaims(token, { apiAudiences: audiences }, audiences, clock.now());
    if (!verdict.authenticated || token.audiences.length !== 1 || !isOf(account, verdict.user)) {
      throw unproven(
        'the token that its API server signed for this site is not the requested one.',
      );
    }
    return key;
  };
  const ask: (...question: Parameters<ProveKey>) => Promise<VerificationKey> = async (
    cluster,
    keys,
    signal,
  ) => {
    const proof = await proofOf(cluster);
    if (proof === undefined) throw withoutCredential();
    return proof.type === 'mounted'
      ? signedBy(keys, proof.token, cluster.issuer).key
      : request(cluster, keys, proof.account, signal);
  };
  return async (...question) => {
    try {
      return await ask(...question);
    } catch (caught) {
      const [{ name }, , signal] = question;
      signal.throwIfAborted();
      const { reason, message } = failureOf(caught);
      if (reason === 'Unproven') return { reason, message };
      return { reason, message: `The site could not ask cluster ${name} for a token. ${message}` };
    }
  };
}

/** Whether tokens that this key signed may go to the API server of the cluster, or to the site of its peer. */
export function mayForward(
  { peer, sharesKeys }: Pick<StoredCluster, 'peer' | 'sharesKeys'>,
  { provenAtMs }: VerificationKey,
): boolean {
  // A peer answers for the keys of its clusters, and the operator for those of the others.
  return provenAtMs !== undefined || peer !== undefined || sharesKeys;
}

/** Whether reviews of a cluster ask its API server, and none of its keys allows it. */
export function needsProof(cluster: StoredCluster, { keys }: KeySet): boolean {
  return cluster.mode !== 'jwks' && !keys.some((key) => mayForward(cluster, key));
}

export const notYetProven: KeyFailure = {
  reason: 'Unproven',
  message: 'The cluster has not proved yet that it signs with a key that it publishes.',
};

/** The same keys, of which one is proven now. */
export function withProof(keys: KeySet, proven: VerificationKey, provenAtMs: number): KeySet {
  const all = keys.keys.map((key) => (key === proven ? { ...key, provenAtMs } : key));
  return keySetOf(all, keys);
}

function signedBy(
  keys: KeySet,
  token: string,
  issuer: string,
): Extract<ReadToken, { readonly type: 'signed' }> {
  const reading = readToken(token, keys, issuer);
  if (reading.type === 'signed') return reading;
  throw unproven(
    'its API server signs tokens with a key that it does not publish. If this stays so, the published keys may be those of another cluster: check spec.apiServer.',
  );
}

/** A legacy token has no audience, so the user is of the issuer that was asked. */
function isOf({ namespace, name }: Account, { username }: { readonly username: string }): boolean {
  return username === `system:serviceaccount:${namespace}:${name}`;
}

function refused({ status }: KubeResponse, account: Account, cluster: string): HansaError {
  const which = `${account.namespace}/${account.name}`;
  switch (status) {
    case 401:
      return problem(
        'Unauthorized',
        'Its API server rejects the credential of this site (HTTP 401). The condition CredentialFresh says what to do.',
      );
    case 403:
      return unproven(
        `this site may not request a token of ServiceAccount ${which} there (HTTP 403). Apply the RBAC again: hansa cluster add ${cluster}, or allow the identity of this site to create serviceaccounts/token of ${which}.`,
      );
    case 404:
      return unproven(
        `it has no ServiceAccount ${which} (HTTP 404). Create it, and allow the identity of this site to create serviceaccounts/token of it.`,
      );
    default:
      return unproven(`its API server answered HTTP ${status} to a TokenRequest of ${which}.`);
  }
}

function withoutCredential(): HansaError {
  return unproven('the site has no credential for its API server.');
}

function unproven(why: string): HansaError {
  return problem(
    'Unproven',
    `The cluster has not proved that it signs with a key that it publishes: ${why}`,
  );
}
