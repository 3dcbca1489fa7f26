// Keeps the credentials of clusters fresh: renews tokens in time, asks API servers whether they still accept
// them, and reports CredentialFresh. One replica of the site runs it.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { timestamp } from '../../api/object.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { ClusterCredentials } from '../../core/kube/credentials/cluster-credentials.ts';
import {
  type ClusterCredentialSource,
  type PickedCredential,
  secretOf,
} from '../../core/kube/credentials/credential-source.ts';
import { nextLookMs, renewAtMs, retryAfterMs } from '../../core/kube/credentials/renewal-plan.ts';
import { RenewalProblem } from '../../core/kube/credentials/renew-token.ts';
import { credentialsCollection, recordOf } from '../../core/kube/credentials/stored-credentials.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { Counter } from '../../core/metrics/metrics.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import { type Source, StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Commit } from '../../core/store/store.ts';
import {
  credentialCondition,
  type CredentialView,
  notNeeded,
} from '../credentials/credential-condition.ts';
import { renewCredential } from '../credentials/renew-credential.ts';
import { type KeyMemory, keysCollection } from '../keys/key-memory.ts';
import { readHeader } from '../review/token-header.ts';

export type CredentialControllerParts = Pick<
  PlaneContext,
  'store' | 'clock' | 'random' | 'audit' | 'metrics' | 'resources'
> & {
  readonly credentials: ClusterCredentials;
  /** The client of the current version of a cluster; undefined without an API server. */
  readonly clientOf: (cluster: string) => Pick<KubeClient, 'request'> | undefined;
  /** Whether the cluster signs with another key than with this one by now. */
  readonly isSuperseded: KeyMemory['isSuperseded'];
};

const controllerName = 'cluster-credentials';
const leaseName = 'controller.cluster-credentials';
/** How often the site looks at a credential that others replace. */
const lookEveryMs = 5 * 60_000;
/** How often it looks for one that is missing or cannot be used. */
const lookForMs = 30_000;
/** The least time between two questions to an API server whether it accepts the credential. */
const askEveryMs = 60_000;
const askWithinMs = 10_000;

const clusters = kindReader(clusterKind);

/** What this process remembers of a cluster. After a change of the leader it starts again. */
interface Memory {
  /** The token or certificate that the rest is about. */
  readonly secret: string;
  failures: number;
  failure: CredentialView['failure'];
  retryAtMs: number;
  askedAtMs: number;
  /** Undefined until the API server was asked. */
  isRefused: boolean | undefined;
}

export function credentialController(parts: CredentialControllerParts): Controller {
  return new CredentialController(parts).controller;
}

class CredentialController {
  readonly #parts: CredentialControllerParts;
  readonly #memories = new Map<string, Memory>();
  /** Renewals by name whose new token was due at once, and when the next one may be. */
  readonly #hasty = new Map<string, { count: number; notBeforeMs: number }>();
  readonly #results: Counter<'cluster' | 'result'>;

  constructor(parts: CredentialControllerParts) {
    this.#parts = parts;
    const { metrics, store, clock } = parts;
    this.#results = metrics.counter({
      name: 'hansa_cluster_credential_renewals_total',
      help: 'Renewals of cluster credentials by result: renewed, failed, or denied (an operator must act).',
      labels: ['cluster', 'result'],
    });
    metrics.observe(
      {
        name: 'hansa_cluster_credential_expiry_seconds',
        help: 'Time until the credential for the API server of a cluster expires. Negative after expiry.',
        labels: ['cluster'],
      },
      (report) => {
        for (const { name } of store.list(clusters.collection).entries) {
          const at = store.facts.get(clusters.collection, name)?.['credentialExpiresAt'];
          if (typeof at !== 'string') continue;
          report({ cluster: name }, (Date.parse(at) - clock.now()) / 1000);
        }
      },
    );
  }

  get controller(): Controller {
    const { store, clock } = this.#parts;
    return {
      name: controllerName,
      lease: leaseName,
      sources: [
        new StoreSource({ store, clock, collection: clusters.collection }),
        new StoreSource({ store, clock, collection: credentialsCollection }),
        // A cluster that signs with another key may drop the one that signed the token.
        new StoreSource({ store, clock, collection: keysCollection }),
        this.#refusals(),
      ],
      // One slow API server must not delay the renewals of others.
      parallelism: 8,
      reconcile: (name, context) => this.#reconcile(name, context),
    };
  }

  /** A rejected credential is looked at now. */
  #refusals(): Source {
    return {
      start: (sink) => ({
        resync: () => undefined,
        stop: this.#parts.credentials.onRefused((name) => {
          const memory = this.#memories.get(name);
          if (memory !== undefined) memory.askedAtMs = Number.NEGATIVE_INFINITY;
          sink.add(name);
        }),
      }),
    };
  }

  async #reconcile(name: string, context: ReconcileContext): Promise<ReconcileResult | undefined> {
    const { store, credentials } = this.#parts;
    const fence =
      context.epoch === undefined ? undefined : { lease: leaseName, epoch: context.epoch };
    const cluster = clusters.get(store, name);
    if (cluster === undefined) {
      await this.#forget(name, fence);
      return undefined;
    }
    if (cluster.spec.apiServer === undefined) {
      await this.#report(cluster, notNeeded, undefined, fence);
      return undefined;
    }
    const source = credentials.sourceOf(cluster);
    let picked = await inspected(source);
    let memory: Memory | undefined;
    let waitMs = lookForMs;
    if (!(picked instanceof Error)) {
      memory = this.#memoryOf(name, picked);
      waitMs = await this.#renewIfDue(cluster, source, picked, memory, { ...context, fence });
      picked = await inspected(source);
    }
    if (!(picked instanceof Error)) {
      memory = this.#memoryOf(name, picked);
      await this.#ask(name, picked, memory, context.signal);
    }
    const view: CredentialView = {
      cluster: name,
      type: source.type,
      picked,
      renew: source.renew,
      failure: memory?.failure,
      isRefused: memory !== undefined && (memory.isRefused ?? wasRefused(cluster)),
    };
    const condition = credentialCondition(view, this.#parts.clock.now());
    const expiresAtMs =
      picked instanceof Error || source.type === 'jwtSVID' ? undefined : picked.expiresAtMs;
    await this.#report(cluster, condition, expiresAtMs, fence);
    // A rejected credential may be accepted again, after an API server was restored, say.
    return { requeueAfterMs: view.isRefused ? Math.min(waitMs, askEveryMs) : waitMs };
  }

  /** Returns after how long to look again. */
  async #renewIfDue(
    cluster: Cluster,
    source: ClusterCredentialSource,
    picked: PickedCredential,
    memory: Memory,
    context: ReconcileContext & { readonly fence: Commit['fence'] },
  ): Promise<number> {
    const { clock, random } = this.#parts;
    const { name } = cluster.metadata;
    const settings = source.renew;
    if (settings === undefined || picked.credential.type !== 'token') return lookEveryMs;
    const dueAtMs = this.#isSuperseded(cluster, picked) ? 0 : renewAtMs(picked, settings);
    const waitMs = nextLookMs(dueAtMs, clock.now(), settings);
    if (dueAtMs === undefined || dueAtMs > clock.now()) {
      memory.failures = 0;
      memory.failure = undefined;
      this.#hasty.delete(name);
      return waitMs;
    }
    const hasty = this.#hasty.get(name) ?? { count: 0, notBeforeMs: 0 };
    const restMs = Math.max(memory.retryAtMs, hasty.notBeforeMs) - clock.monotonic();
    if (restMs > 0) return restMs;
    const client = this.#parts.clientOf(name);
    // The directory follows the store a moment later.
    if (client === undefined) return 1_000;
    try {
      const stored = this.#parts.credentials.stored;
      const { signal, fence } = context;
      await renewCredential(
        { ...this.#parts, stored },
        { cluster, client, source, picked, settings, controller: controllerName, fence, signal },
      );
      this.#results.add({ cluster: name, result: 'renewed' });
      memory.failures = 0;
      memory.failure = undefined;
      // Forgotten by the next look, unless the API server grants tokens that are due at once, each with an
      // audit record.
      const pauseMs = retryAfterMs(hasty.count + 1, undefined, random.unit());
      this.#hasty.set(name, {
        count: hasty.count + 1,
        notBeforeMs: clock.monotonic() + pauseMs,
      });
      context.log.info('cluster credential renewed', { cluster: name });
      return 1_000;
    } catch (error) {
      if (context.signal.aborted || hasCode(error, 'HANSA_FENCED')) throw error;
      if (hasCode(error, 'HANSA_CONFLICT')) throw error;
      memory.failure = failureOf(error);
      memory.failures += 1;
      const askedForMs = error instanceof RenewalProblem ? error.retryAfterMs : undefined;
      const retryMs = retryAfterMs(memory.failures, askedForMs, random.unit());
      memory.retryAtMs = clock.monotonic() + retryMs;
      if (memory.failure.reason === 'Refused') memory.isRefused = true;
      this.#results.add({
        cluster: name,
        result: memory.failure.isTemporary ? 'failed' : 'denied',
      });
      context.log.warn('cannot renew the cluster credential', {
        cluster: name,
        why: memory.failure.message,
        failures: memory.failures,
        retryMs: Math.round(retryMs),
      });
      return retryMs;
    }
  }

  /** A token of another issuer has no key of the cluster, and one that does not expire is not renewed. */
  #isSuperseded(
    { metadata, spec }: Cluster,
    { credential, claims, expiresAtMs }: PickedCredential,
  ): boolean {
    if (credential.type !== 'token' || expiresAtMs === undefined) return false;
    if (claims?.issuer !== spec.issuer) return false;
    const { token } = credential;
    const keyId = readHeader(token.slice(0, token.indexOf('.')))?.keyId;
    return keyId !== undefined && this.#parts.isSuperseded(metadata, keyId);
  }

  /** Whether the API server still accepts the credential. A token may be revoked long before it expires. */
  async #ask(
    name: string,
    { credential }: PickedCredential,
    memory: Memory,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#parts;
    if (credential.type === 'none') return;
    const client = this.#parts.clientOf(name);
    if (client === undefined || clock.monotonic() - memory.askedAtMs < askEveryMs) return;
    memory.askedAtMs = clock.monotonic();
    try {
      // Every authenticated caller may read it. An invalid credential gets 401 everywhere.
      const { status } = await client.request({
        method: 'GET',
        path: '/version',
        timeoutMs: askWithinMs,
        signal,
      });
      memory.isRefused = status === 401;
    } catch (error) {
      if (signal.aborted) throw error;
      // Not reachable: the condition Reachable reports it, and what was known stays.
      if (!(error instanceof HansaError)) throw error;
    }
  }

  async #report(
    { metadata }: Cluster,
    condition: ReturnType<typeof credentialCondition>,
    expiresAtMs: number | undefined,
    fence: Commit['fence'],
  ): Promise<void> {
    const { store, clock, resources } = this.#parts;
    const { name, uid } = metadata;
    const credentialExpiresAt = expiresAtMs === undefined ? null : timestamp(expiresAtMs);
    const known = store.facts.get(clusters.collection, name);
    if (known?.['uid'] !== uid || known['credentialExpiresAt'] !== credentialExpiresAt) {
      store.facts.merge(clusters.collection, name, { uid, credentialExpiresAt });
    }
    await resources<Cluster>(clusterKind).patchStatus(
      name,
      (current) => {
        const { generation } = current.metadata;
        // The next run reports a newer version.
        if (current.metadata.uid !== uid || generation !== metadata.generation) {
          return current.status ?? {};
        }
        const update = { type: 'CredentialFresh', ...condition, observedGeneration: generation };
        const conditions = setCondition(current.status?.conditions, update, clock.now());
        return { ...current.status, conditions };
      },
      { controller: controllerName, ...(fence === undefined ? {} : { fence }) },
    );
  }

  async #forget(name: string, fence: Commit['fence']): Promise<void> {
    const { store, credentials } = this.#parts;
    this.#memories.delete(name);
    this.#hasty.delete(name);
    this.#results.forget({ cluster: name });
    const entry = credentials.stored.entry(name);
    if (entry === undefined) return;
    // Deleting a Cluster deletes the record in the same commit. This is for records of a restored store.
    await commitFenced(store, {
      expect: [
        { collection: clusters.collection, name, at: 'absent' },
        { ...recordOf(name), at: entry.revision },
      ],
      delete: [recordOf(name)],
      ...(fence === undefined ? {} : { fence }),
    });
  }

  /** A new one for a new credential. */
  #memoryOf(name: string, { credential }: PickedCredential): Memory {
    const secret = secretOf(credential);
    const known = this.#memories.get(name);
    if (known?.secret === secret) return known;
    const memory: Memory = {
      secret,
      failures: 0,
      failure: undefined,
      retryAtMs: 0,
      askedAtMs: Number.NEGATIVE_INFINITY,
      isRefused: undefined,
    };
    this.#memories.set(name, memory);
    return memory;
  }
}

async function inspected(source: ClusterCredentialSource): Promise<PickedCredential | Error> {
  try {
    return await source.inspect();
  } catch (error) {
    if (error instanceof HansaError) return error;
    throw error;
  }
}

/** What an earlier leader found, until this one could ask. */
function wasRefused({ metadata, status }: Cluster): boolean {
  const known = findCondition(status?.conditions, 'CredentialFresh');
  return known?.reason === 'Refused' && known.observedGeneration === metadata.generation;
}

function failureOf(error: unknown): NonNullable<CredentialView['failure']> {
  if (error instanceof RenewalProblem) {
    const { reason, message, isTemporary } = error;
    return { reason, message, isTemporary };
  }
  // Errors of the client name the API server and the cause, and never the token.
  const message = error instanceof HansaError ? error.message : 'an internal error occurred';
  return { reason: 'RenewalFailed', message: message.replace(/\.$/, ''), isTemporary: true };
}
