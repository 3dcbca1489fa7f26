// Keeps the ConfigMap with the site's CA fresh in registered clusters, across rotations. An administrator
// of the cluster opts in by creating it (`hansa cluster services`) and by allowing the site to change it.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { HansaError } from '../../core/errors/error.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { KubeClient, KubeResponse } from '../../core/kube/kube-client.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import { type Source, StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import { caConfigMap, caConfigMapPath, planPublication } from '../manifests/published-ca.ts';

export type PublishedCaParts = Pick<
  PlaneContext,
  'store' | 'clock' | 'resources' | 'trustDomain'
> & {
  readonly authority: Pick<PlaneContext['authority'], 'bundle' | 'onChange'>;
  /** The namespace of `auth.baseDomain`. */
  readonly namespace: string;
  readonly clientOf: (cluster: string) => Pick<KubeClient, 'request'> | undefined;
};

const controllerName = 'cluster-published-ca';
const leaseName = 'controller.cluster-published-ca';
const conditionType = 'CAPublished';
/** How often the site compares the ConfigMap of a cluster. */
const lookEveryMs = 10 * 60_000;
/** The site may get a credential or a connection soon. */
const soonMs = 30_000;
const maxResponseBytes = 1024 * 1024;

const clusters = kindReader(clusterKind);

/** True: the ConfigMap is current. Undefined: the cluster has not opted in. */
type Outcome =
  | {
      readonly status: 'True' | 'False' | 'Unknown';
      readonly reason: string;
      readonly message: string;
    }
  | undefined;

export function publishedCaController(parts: PublishedCaParts): Controller {
  const { store, clock, authority } = parts;
  return {
    name: controllerName,
    lease: leaseName,
    sources: [
      new StoreSource({ store, clock, collection: clusters.collection, keysOf: withApiServer }),
      rotations(store, authority),
    ],
    // One slow API server must not delay others.
    parallelism: 8,
    reconcile: (name, context) => reconcile(parts, name, context),
  };
}

const withApiServer = (entry: Parameters<typeof clusters.of>[0]): readonly string[] =>
  clusters.of(entry).spec.apiServer === undefined ? [] : [entry.name];

/** A rotation changes the ConfigMaps of all clusters. */
function rotations(
  store: PublishedCaParts['store'],
  authority: PublishedCaParts['authority'],
): Source {
  return {
    start: (sink) => ({
      resync: () => undefined,
      stop: authority.onChange(() => {
        for (const { name } of store.list(clusters.collection).entries) sink.add(name);
      }),
    }),
  };
}

async function reconcile(
  parts: PublishedCaParts,
  name: string,
  { epoch, signal }: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const cluster = clusters.get(parts.store, name);
  if (cluster === undefined || cluster.spec.apiServer === undefined) return undefined;
  const client = parts.clientOf(name);
  if (client === undefined) return { requeueAfterMs: soonMs };
  const outcome = await publish(parts, client, signal);
  await report(parts, cluster, outcome, epoch);
  const isSettled = outcome === undefined || outcome.status === 'True';
  return { requeueAfterMs: isSettled ? lookEveryMs : soonMs };
}

async function publish(
  { namespace, trustDomain, authority }: PublishedCaParts,
  client: Pick<KubeClient, 'request'>,
  signal: AbortSignal,
): Promise<Outcome> {
  const path = caConfigMapPath(namespace);
  const wanted = { namespace, trustDomain: trustDomain.name, ca: authority.bundle.pem };
  const what = `ConfigMap ${namespace}/${caConfigMap(wanted).metadata.name}`;
  try {
    const found = await client.request({
      method: 'GET',
      path,
      maxBytes: maxResponseBytes,
      signal,
    });
    // Not there, or not for this site to see: the cluster has not opted in.
    if (found.status === 404 || found.status === 403) return undefined;
    if (found.status !== 200) return failed(found, `cannot read ${what}`);
    const plan = planPublication(objectIn(found), wanted);
    if (plan.do === 'leave') {
      return {
        status: 'False',
        reason: 'NotOwned',
        message: `The site does not change ${what}: ${plan.why}. Create it with: hansa cluster services`,
      };
    }
    if (plan.do === 'write') {
      const written = await client.request({
        method: 'PATCH',
        path,
        // No other manager has a reason to own the CA of this site.
        query: { fieldManager: 'hansa', force: 'true' },
        contentType: 'application/apply-patch+yaml',
        body: caConfigMap(wanted),
        maxBytes: maxResponseBytes,
        signal,
      });
      if (written.status === 403) {
        return {
          status: 'False',
          reason: 'NotAllowed',
          message: `The site may not change ${what} (HTTP 403), so it holds an old CA. Allow the verb patch on it, as in the Role that \`hansa cluster add\` creates.`,
        };
      }
      if (written.status !== 200) return failed(written, `cannot change ${what}`);
    }
    return {
      status: 'True',
      reason: 'Current',
      message: `${what} holds the current CA of the site.`,
    };
  } catch (error) {
    if (signal.aborted || !(error instanceof HansaError)) throw error;
    return { status: 'Unknown', reason: 'Unreachable', message: error.message };
  }
}

function failed({ status }: KubeResponse, what: string): Outcome {
  return {
    status: 'Unknown',
    reason: 'Failed',
    message: `The site ${what}: the API server answered HTTP ${status}. The site tries again.`,
  };
}

function objectIn({ body }: KubeResponse): unknown {
  try {
    return parseBoundedJson(body);
  } catch {
    return undefined;
  }
}

/** A cluster that never opted in gets no condition. */
async function report(
  { resources, clock }: PublishedCaParts,
  { metadata, status }: Cluster,
  outcome: Outcome,
  epoch: number | undefined,
): Promise<void> {
  const known = findCondition(status?.conditions, conditionType);
  if (known === undefined && (outcome === undefined || outcome.reason === 'Unreachable')) return;
  await resources<Cluster>(clusterKind).patchStatus(
    metadata.name,
    (current) => {
      if (current.metadata.uid !== metadata.uid) return current.status ?? {};
      const before = current.status?.conditions;
      const conditions =
        outcome === undefined
          ? (before ?? []).filter(({ type }) => type !== conditionType)
          : setCondition(
              before,
              {
                type: conditionType,
                ...outcome,
                observedGeneration: current.metadata.generation,
              },
              clock.now(),
            );
      return { ...current.status, conditions };
    },
    {
      controller: controllerName,
      ...(epoch === undefined ? {} : { fence: { lease: leaseName, epoch } }),
    },
  );
}
