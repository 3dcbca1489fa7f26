// Renews the token of one Cluster: requests a new one with the current one, and stores it sealed in one
// commit. A crash in between leaves the current token in place.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { timestamp } from '../../api/object.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { controllerCaller } from '../../core/access/identity.ts';
import type { Audit } from '../../core/audit/log.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import {
  bindingOf,
  type CredentialBinding,
} from '../../core/kube/credentials/credential-binding.ts';
import type {
  ClusterCredentialSource,
  PickedCredential,
  RenewSettings,
} from '../../core/kube/credentials/credential-source.ts';
import { renewToken } from '../../core/kube/credentials/renew-token.ts';
import type { StoredCredentials } from '../../core/kube/credentials/stored-credentials.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Commit, Store } from '../../core/store/store.ts';

export interface RenewalParts {
  readonly store: Pick<Store, 'get'>;
  readonly audit: Pick<Audit, 'record'>;
  readonly stored: StoredCredentials;
}

export interface Renewal {
  readonly cluster: Cluster;
  readonly client: Pick<KubeClient, 'request'>;
  readonly source: Pick<ClusterCredentialSource, 'type'>;
  readonly picked: PickedCredential;
  readonly settings: RenewSettings;
  readonly controller: string;
  readonly fence: Commit['fence'];
  readonly signal: AbortSignal;
}

const clusters = kindReader(clusterKind);
/** Other controllers write the status of the Cluster at the same time. */
const maxAttempts = 8;

/**
 * Resolves when the new token is durable. Throws RenewalProblem or the errors of KubeClient.request;
 * HANSA_CONFLICT where the credential or the Cluster changed meanwhile: then the new token is dropped.
 */
export async function renewCredential(parts: RenewalParts, renewal: Renewal): Promise<void> {
  const { cluster, client, source, picked, settings, fence, signal } = renewal;
  const { name, uid, generation } = cluster.metadata;
  const { token, claims } = await renewToken(
    client,
    picked.claims,
    settings.durationSeconds,
    signal,
  );
  const { tokenFile } = cluster.spec.credential ?? {};
  const binding = bindingOf(cluster) as CredentialBinding;
  const credential = {
    binding,
    from:
      source.type === 'tokenFile' && tokenFile !== undefined
        ? { file: tokenFile }
        : ({ command: true } as const),
    secret: { type: 'token', token },
  } as const;
  const until = claims.expiresAtMs === undefined ? 'never' : timestamp(claims.expiresAtMs);
  for (let attempt = 1; ; attempt += 1) {
    const entry = parts.store.get(clusters.collection, name);
    const now = entry && clusters.of(entry).metadata;
    if (entry === undefined || now?.uid !== uid || now.generation !== generation) {
      throw new HansaError(
        'HANSA_CONFLICT',
        `Cannot keep the renewed token of cluster ${name}: the Cluster changed meanwhile.`,
      );
    }
    const row = parts.audit.record(
      changeDraft(
        controllerCaller(renewal.controller),
        {},
        {
          verb: 'cluster.credential.renew',
          kind: clusterKind.kind,
          name,
          reason: `token of ${claims.subject}, expires ${until}`,
        },
      ),
    );
    try {
      await parts.stored.put(name, credential, picked.storedAt, {
        expect: [{ collection: clusters.collection, name, at: entry.revision }],
        audit: [row],
        ...(fence === undefined ? {} : { fence }),
      });
      return;
    } catch (error) {
      const recordIsSame = (parts.stored.entry(name)?.revision ?? 'absent') === picked.storedAt;
      const canRetry = hasCode(error, 'HANSA_CONFLICT') && recordIsSame;
      if (!canRetry || attempt === maxAttempts) throw error;
    }
  }
}
