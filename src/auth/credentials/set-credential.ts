// Stores and deletes the credential of a Cluster for an administrator. The record is bound to the address
// that the Cluster has at that moment.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { timestamp } from '../../api/object.ts';
import { changeDraft, type Requester } from '../../core/access/audit-draft.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { readClientCertificate } from '../../core/kube/credentials/client-certificate.ts';
import { bindingOf } from '../../core/kube/credentials/credential-binding.ts';
import type {
  StoredCredentials,
  StoredSecret,
} from '../../core/kube/credentials/stored-credentials.ts';
import { claimsOf, maxTokenBytes, tokenIn } from '../../core/kube/credentials/token-claims.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export interface SetCredentialParts {
  readonly store: Pick<Store, 'get'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly audit: Pick<Audit, 'record'>;
  readonly stored: StoredCredentials;
}

/** Without the secret. */
export interface SetCredential {
  readonly cluster: string;
  readonly type: 'token' | 'certificate';
  readonly subject?: string;
  readonly expiresAt?: string;
}

const clusters = kindReader(clusterKind);
/** Controllers write the status of the Cluster at the same time. */
const maxAttempts = 8;

/** Throws HANSA_NOT_FOUND, HANSA_BAD_REQUEST where the secret or the Cluster cannot be used. Messages never contain the secret. */
export async function setCredential(
  parts: SetCredentialParts,
  name: string,
  body: Readonly<Record<string, unknown>>,
  { caller, origin }: Requester,
): Promise<SetCredential> {
  const { secret, ...about } = secretIn(name, body, parts.clock.now());
  for (let attempt = 1; ; attempt += 1) {
    const entry = parts.store.get(clusters.collection, name);
    const cluster = entry && clusters.of(entry);
    if (entry === undefined || cluster?.metadata.deletionTimestamp !== undefined) {
      throw noCluster(name);
    }
    const binding = usableBinding(cluster as Cluster, body['apiServer']);
    const until = about.expiresAt === undefined ? '' : `, expires ${about.expiresAt}`;
    const row = parts.audit.record(
      changeDraft(caller, origin, {
        verb: 'cluster.credential.set',
        kind: clusterKind.kind,
        name,
        reason: `${about.type}${about.subject === undefined ? '' : ` of ${about.subject}`} for ${binding.apiServer}${until}`,
      }),
    );
    try {
      await parts.stored.put(name, { binding, from: { command: true }, secret }, 'any', {
        expect: [{ collection: clusters.collection, name, at: entry.revision }],
        audit: [row],
      });
      return { cluster: name, ...about };
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT') || attempt === maxAttempts) throw error;
    }
  }
}

/** Throws HANSA_NOT_FOUND where none is stored. */
export async function deleteCredential(
  { audit, stored }: SetCredentialParts,
  name: string,
  { caller, origin }: Requester,
): Promise<void> {
  const row = audit.record(
    changeDraft(caller, origin, {
      verb: 'cluster.credential.delete',
      kind: clusterKind.kind,
      name,
      reason: 'the stored credential was deleted',
    }),
  );
  if (await stored.delete(name, [row])) return;
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `Cluster ${name} has no stored credential. \`hansa cluster show ${name}\` shows its source.`,
  );
}

function secretIn(
  name: string,
  { token, clientCertificate, clientKey }: Readonly<Record<string, unknown>>,
  nowMs: number,
): Omit<SetCredential, 'cluster'> & { readonly secret: StoredSecret } {
  const refuse = (why: string): HansaError =>
    new HansaError('HANSA_BAD_REQUEST', `Cannot set the credential of cluster ${name}: ${why}.`);
  const alive = (expiresAtMs: number | undefined): { readonly expiresAt?: string } => {
    if (expiresAtMs === undefined) return {};
    const expiresAt = timestamp(expiresAtMs);
    if (expiresAtMs <= nowMs) throw refuse(`it expired at ${expiresAt}. Get a new one`);
    return { expiresAt };
  };
  if (typeof token === 'string' && clientCertificate === undefined && clientKey === undefined) {
    const word = tokenIn(token);
    if (word === undefined) {
      throw refuse(`a token is one word of at most ${maxTokenBytes} visible ASCII characters`);
    }
    const claims = claimsOf(word);
    return {
      type: 'token',
      secret: { type: 'token', token: word },
      ...(claims?.subject === undefined ? {} : { subject: claims.subject.slice(0, 400) }),
      ...alive(claims?.expiresAtMs),
    };
  }
  const isPair = typeof clientCertificate === 'string' && typeof clientKey === 'string';
  if (!isPair || token !== undefined) {
    throw refuse('send either token, or clientCertificate and clientKey');
  }
  const read = readClientCertificate(clientCertificate, clientKey);
  if (typeof read === 'string') throw refuse(read);
  return {
    type: 'certificate',
    secret: { type: 'certificate', certificate: clientCertificate, key: clientKey },
    ...(read.subject === undefined ? {} : { subject: read.subject.slice(0, 400) }),
    ...alive(read.expiresAtMs),
  };
}

function usableBinding(cluster: Cluster, expected: unknown) {
  const { metadata, spec } = cluster;
  const { name } = metadata;
  const refuse = (why: string): HansaError =>
    new HansaError('HANSA_BAD_REQUEST', `Cannot set the credential of cluster ${name}: ${why}.`);
  const source = (['tokenFile', 'clientCertificate', 'inCluster', 'jwtSVID'] as const).find(
    (one) => spec.credential?.[one] !== undefined && spec.credential[one] !== false,
  );
  if (source !== undefined) {
    throw refuse(`it uses spec.credential.${source}. Remove that field first`);
  }
  const binding = bindingOf(cluster);
  if (binding === undefined) throw refuse('it has no apiServer. Set spec.apiServer first');
  // The caller may have read the Cluster before its author changed it.
  const isExpected = expected === undefined || expected === spec.apiServer;
  if (!isExpected) {
    throw new HansaError(
      'HANSA_CONFLICT',
      `Cannot set the credential of cluster ${name}: its apiServer is ${spec.apiServer} now. Check the Cluster and try again.`,
    );
  }
  return binding;
}

function noCluster(name: string): HansaError {
  return new HansaError(
    'HANSA_NOT_FOUND',
    `Cannot set the credential of cluster ${JSON.stringify(name.slice(0, 80))}: there is no such cluster. Register it first with \`hansa cluster add\`.`,
  );
}
